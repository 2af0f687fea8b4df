// Lets threads use what a group owns, until the group is about to go.
//
// Calls keep it: their ends may come when the group is going, or has gone.

#ifndef INVOKER_SRC_INVOKE_GROUP_GROUP_ACCESS_H_
#define INVOKER_SRC_INVOKE_GROUP_GROUP_ACCESS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace invoker {

// Any thread.
class GroupAccess {
 public:
  // Whether the group is there, and stays until Leave.
  bool Enter() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (shut_) return false;
    ++inside_;
    return true;
  }
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --inside_;
  }

  // From now on nobody enters.
  void Shut() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    shut_ = true;
  }
  // Blocks until all have left.
  void AwaitNobody() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](uint32_t* inside) { return *inside == 0; }, &inside_));
  }

 private:
  absl::Mutex mutex_;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_GROUP_ACCESS_H_
