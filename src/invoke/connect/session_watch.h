// Brings what a lease hears of one of its sessions to that session's calls.
//
// There may be several sessions one after the other, while a client looks for a fabric that works.
// What is heard of a session before the client knows its handle is kept until it does.

#ifndef INVOKER_SRC_INVOKE_CONNECT_SESSION_WATCH_H_
#define INVOKER_SRC_INVOKE_CONNECT_SESSION_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/session/driver/call_driver.h"
#include "src/invoke/session/path_check.h"

namespace invoker {

// Any thread.
class SessionWatch {
 public:
  // `worker` is for messages: "HOST:PORT".
  // `peer_timeout` is ClientOptions'.
  SessionWatch(std::string worker, absl::Duration peer_timeout);

  // A session of this driver is about to be opened, in place of the one before.
  void Begin(std::shared_ptr<CallDriver> driver) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has been opened.
  void Opened(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // Its path has been proven: from now on it is watched. Before, probes have limits of their own.
  void Proven() ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing more is wanted of it. Returns its handle, or 0.
  uint64_t End() ABSL_LOCKS_EXCLUDED(mutex_);

  // To be told, once, that the session has ended, if the worker or its lease has ended it; at once
  // if that has happened already. On the lease's thread: must not block.
  void set_on_ended(std::function<void(const absl::Status&)> on_ended) ABSL_LOCKS_EXCLUDED(mutex_);

  // OK, or why the lease is lost.
  absl::Status lost() const ABSL_LOCKS_EXCLUDED(mutex_);

  // What the lease hears. A `reason` with ABORTED is what calls end with; of others they are told
  // that the session has ended, with UNAVAILABLE. Block for some milliseconds while calls are under
  // way: what the worker sent before it ended the session is waited for until `deadline_ns`, which
  // several sessions of one lease share.
  void OnSessionClosed(uint64_t handle, absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // They run no callback of a call, so that a thread may end one session after the other.
  void OnLost(const absl::Status& reason, int64_t deadline_ns) ABSL_LOCKS_EXCLUDED(mutex_);
  // The worker refuses further calls: none are sent. Those under way go on.
  void TakeNoMore(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // The part of OnLost that does not block: who is to be told by set_on_ended is.
  void AnnounceLost(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

  // Called when PathCheck wants it: whether calls get stuck on the way. Asks the worker, if there
  // is reason to, what has become of one: through `ask`, which must not block and see to it that
  // Answered is called once, whatever comes.
  using Ask = absl::FunctionRef<void(uint64_t handle, uint64_t sequence)>;
  void CheckPath(Ask ask) ABSL_LOCKS_EXCLUDED(mutex_);
  void Answered(uint64_t handle, uint64_t sequence,
                const absl::StatusOr<bootstrap::RequestState>& state) ABSL_LOCKS_EXCLUDED(mutex_);

  // That have come in the present session.
  uint64_t Answers() const ABSL_LOCKS_EXCLUDED(mutex_);

  // For `deadline_ns` above: from now on, and by default for what a worker sent just before it
  // ended the session.
  static int64_t DeliveryDeadlineNs(absl::Duration limit = absl::Milliseconds(10));

 private:
  void Break(CallDriver* driver, absl::string_view symptom) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Ended(const absl::Status& why) const;
  void Tell(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string worker_;
  const absl::Duration peer_timeout_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<CallDriver> driver_ ABSL_GUARDED_BY(mutex_);
  uint64_t handle_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: not known yet
  // Sessions that were closed before the handle was known.
  std::vector<std::pair<uint64_t, std::string>> early_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);  // TakeNoMore's, for sessions opened later
  bool proven_ ABSL_GUARDED_BY(mutex_) = false;
  PathCheck path_ ABSL_GUARDED_BY(mutex_);
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);  // why, once it has
  std::function<void(const absl::Status&)> on_ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_SESSION_WATCH_H_
