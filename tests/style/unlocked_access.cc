// Reads a field without its lock, for a test of the analysis.

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace invoker {

class Counter {
 public:
  int ValueWithoutLock() const { return value_; }

 private:
  mutable absl::Mutex mutex_;
  int value_ ABSL_GUARDED_BY(mutex_) = 0;
};

int Count() { return Counter().ValueWithoutLock(); }

}  // namespace invoker
