// Who the members of a group are, now and from now on: a list, a file or a cluster in etcd.

#ifndef INVOKER_SRC_CLUSTER_MEMBER_WATCH_H_
#define INVOKER_SRC_CLUSTER_MEMBER_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "src/cluster/member.h"

namespace invoker::cluster {

class MemberWatch {
 public:
  using OnMembers = std::function<void(const std::vector<Member>& members)>;

  // `address` is "HOST:PORT,HOST:PORT", "file:///PATH" or "etcd://HOST:PORT,HOST:PORT/NAME".
  // `credentials` are for etcd. Does not wait for an answer. INVALID_ARGUMENT for an address that
  // is none; errors as EtcdClient::Make.
  static absl::StatusOr<std::unique_ptr<MemberWatch>> Start(absl::string_view address,
                                                            const ClusterCredentials& credentials);
  // Ends the watch: nobody is told any more.
  virtual ~MemberWatch() = default;
  MemberWatch(const MemberWatch&) = delete;
  MemberWatch& operator=(const MemberWatch&) = delete;

  // Blocks until there is a member. UNAVAILABLE once `limit` has passed: there is none, or why
  // nobody says.
  absl::StatusOr<std::vector<Member>> AwaitMembers(absl::Duration limit)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The members as far as they are known now. `change`: a number for AwaitChange.
  std::vector<Member> Now(uint64_t* change = nullptr) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until there are others than those of that number, for `limit` at most.
  void AwaitChange(uint64_t change, absl::Duration limit) const ABSL_LOCKS_EXCLUDED(mutex_);

  // How busy each is, by incarnation. Blocks for a round trip. UNIMPLEMENTED where nobody publishes
  // it.
  virtual absl::StatusOr<std::map<uint64_t, Load>> Loads() {
    return absl::UnimplementedError("only a cluster in etcd knows its members' load");
  }

  // Once: `on_members` is told the members of now, here, and then each time that there are others,
  // on the watch's thread. Must not block.
  void Follow(OnMembers on_members) ABSL_LOCKS_EXCLUDED(mutex_);

 protected:
  MemberWatch() = default;

  // For implementations, one thread at a time: the members are these.
  void SetMembers(std::vector<Member> members) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody says who they are now; those that were known stay.
  void SetFailure(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  OnMembers on_members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_MEMBER_WATCH_H_
