// Something that happens once, and that Python threads wait for.
//
// threading.Event does not do where a signal may come: Python's own runs in Python, so that what a
// handler raises can come between its steps and leave its lock taken, and a signal that another
// thread got does not end a wait for it.

#ifndef INVOKER_SRC_PYTHON_NATIVE_EVENT_H_
#define INVOKER_SRC_PYTHON_NATIVE_EVENT_H_

#include <optional>

#include "src/python/native/futex_flag.h"

namespace invoker::python {

// With the GIL. Any thread.
class Event {
 public:
  // Ends every wait, now and later. Does not block, in a forked process either.
  void Set() { flag_.Set(); }
  bool is_set() const { return flag_.is_set(); }

  // Blocks without the GIL until it is set, but no longer than `timeout` seconds: whether it is
  // set. On the main thread signal handlers run meanwhile; raises what they raise.
  bool Wait(std::optional<double> timeout) const;

 private:
  FutexFlag flag_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_EVENT_H_
