// The leases of a group, as one: their code, their functions, their bills.

#ifndef INVOKER_SRC_INVOKE_GROUP_LEASES_GROUP_LEASES_H_
#define INVOKER_SRC_INVOKE_GROUP_LEASES_GROUP_LEASES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/lease.h"

namespace invoker {

// Any thread.
class GroupLeases {
 public:
  using Leases = std::vector<std::shared_ptr<Lease>>;

  explicit GroupLeases(Leases leases) : leases_(std::move(leases)) {}

  Leases List() const ABSL_LOCKS_EXCLUDED(mutex_);

  // To all of them at the same time: ClientGroup::UploadCode. It is kept for leases that come
  // later.
  absl::Status UploadCode(absl::string_view code, CodeKind kind, absl::string_view name,
                          absl::Duration timeout) ABSL_LOCKS_EXCLUDED(code_mutex_, mutex_);

  // Takes `added` in, once it has all that has been uploaded, in the place of the leases in `lost`.
  // Some of them may have gone already.
  absl::Status Replace(const Leases& lost, const std::shared_ptr<Lease>& added,
                       absl::Duration timeout) ABSL_LOCKS_EXCLUDED(code_mutex_, mutex_);
  // Takes out a lease whose executors the group does not use.
  void Remove(const std::shared_ptr<Lease>& lease) ABSL_LOCKS_EXCLUDED(mutex_);

  // That all of them have.
  std::vector<std::string> FunctionNames() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ResourceUsage> Usage() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<absl::StatusOr<LeaseEnd>> Release() ABSL_LOCKS_EXCLUDED(mutex_);
  // ClientGroup::ReleaseAll's.
  static absl::StatusOr<LeaseEnd> InOne(const std::vector<absl::StatusOr<LeaseEnd>>& ends);

 private:
  struct Code {
    std::string code;
    CodeKind kind;
    std::string name;
  };

  void EraseLocked(const std::shared_ptr<Lease>& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex code_mutex_;  // before mutex_; held while code is on its way
  std::vector<Code> code_ ABSL_GUARDED_BY(code_mutex_);
  mutable absl::Mutex mutex_;
  Leases leases_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_LEASES_GROUP_LEASES_H_
