// Connects a group to its members in the background: to those that join, and anew to those whose
// sessions were lost.
//
// A thread of its own decides, and sleeps while there is nothing to do; others connect, eight at a
// time. What fails is tried again after 100 ms, then after twice as long each time, up to a second,
// with some randomness, so that many clients of a worker that has been restarted do not all come at
// once. A member that has left the cluster keeps its sessions as long as they live, and is not
// connected to again. If it comes back, it gets the sessions that were lost meanwhile.

#ifndef INVOKER_SRC_INVOKE_GROUP_MEMBER_CONNECTOR_H_
#define INVOKER_SRC_INVOKE_GROUP_MEMBER_CONNECTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/client.h"
#include "src/base/work_threads.h"
#include "src/cluster/member.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {

class MemberConnector {
 public:
  using Clients = std::vector<std::shared_ptr<Client>>;

  // What the group does with new clients; on the connector's thread, which others wait for: must
  // not wait for callbacks. What fails, for want of a function perhaps, is tried again.
  struct Places {
    // Puts the client in the place of one that was lost.
    std::function<absl::Status(size_t executor, std::shared_ptr<Client> client)> replace;
    // Makes a further place for it, and returns the executor's number.
    std::function<absl::StatusOr<size_t>(std::shared_ptr<Client> client)> add;
  };

  // `sessions` with each member: ConnectMember's.
  MemberConnector(const ClientOptions& options, size_t sessions, Places places);
  // Blocks for tries to connect that are under way, which take a second at most where nobody
  // answers.
  ~MemberConnector();
  MemberConnector(const MemberConnector&) = delete;
  MemberConnector& operator=(const MemberConnector&) = delete;

  // Before Start: these executors are the member's.
  void Adopt(const cluster::Member& member, std::vector<size_t> executors);
  // Once. RESOURCE_EXHAUSTED without a thread.
  absl::Status Start();

  // Any thread; these do not block.
  // The executor has been lost.
  void Lost(size_t executor);
  // The members are these now.
  void SetMembers(std::vector<cluster::Member> members);

 private:
  struct Known {
    cluster::Member member;
    bool listed = true;             // it is a member now
    bool stale = false;             // and yet gone: another one is at its address
    size_t sessions = 0;            // the most that it has had at a time; 0: none so far
    std::vector<size_t> executors;  // that have a session with it, or had the latest

    // Whether some of its sessions were lost while it was no member, and so were not followed.
    bool short_of_sessions() const { return executors.size() < sessions; }
  };
  struct Try {
    std::string key;
    std::optional<size_t> executor;  // nothing: the member joins, or gets the sessions it lacks
    CallDeadline next = {};
    absl::Duration pause = {};
  };

  static std::string KeyOf(const cluster::Member& member);

  void Put(std::function<void()> event) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next event; blocks until there is one, or a try is due, which is nullptr.
  std::function<void()> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  bool stopping() ABSL_LOCKS_EXCLUDED(mutex_);

  void OnLost(size_t executor);
  void OnMembers(std::vector<cluster::Member> members);
  void OnConnected(Try attempt, absl::StatusOr<Clients> clients);
  absl::Status Join(Known* known, const Clients& clients);
  void StartDueTries();
  void Connect(Try attempt);
  void TryAfter(absl::Duration pause, Try attempt);

  ClientOptions options_;
  const size_t sessions_;
  const Places places_;

  // The thread's alone, once there is one.
  std::map<std::string, Known> known_;
  std::map<size_t, std::string> owners_;  // which member an executor is of, or was last
  std::vector<size_t> free_;              // executors that were lost, of members that have left
  std::vector<Try> tries_;                // that wait for their time

  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> events_ ABSL_GUARDED_BY(mutex_);
  bootstrap::WorkThreads connecting_;
  std::thread thread_;  // uses all of the above
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_MEMBER_CONNECTOR_H_
