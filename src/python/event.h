// Something that happens once, and that Python threads wait for.
//
// threading.Event does not do where a signal may come: Python's own runs in Python, so that what a
// handler raises can come between its steps and leave its lock taken, and a signal that another
// thread got does not end a wait for it.

#ifndef INVOKER_SRC_PYTHON_EVENT_H_
#define INVOKER_SRC_PYTHON_EVENT_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace invoker::python {

// With the GIL. Any thread.
class Event {
 public:
  // Ends every wait, now and later. Never blocks for long.
  void Set();
  bool is_set() const;

  // Blocks without the GIL until it is set, but no longer than `timeout` seconds: whether it is
  // set. On the main thread signal handlers run meanwhile; raises what they raise.
  bool Wait(std::optional<double> timeout) const;

 private:
  mutable absl::Mutex mutex_;  // never waited for with the GIL by who waits for the event
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_EVENT_H_
