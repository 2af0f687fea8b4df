// Keeps Python's signal handling over the opening of a fabric.

#ifndef INVOKER_SRC_PYTHON_SIGNAL_GUARD_H_
#define INVOKER_SRC_PYTHON_SIGNAL_GUARD_H_

namespace invoker::python {

// libfabric's shared-memory provider installs handlers of its own for SIGINT and SIGTERM when an
// endpoint opens, and with them Ctrl-C would no longer raise KeyboardInterrupt. While guards exist,
// on any threads, the first has noted the handlers, and each puts them back when it goes. Where a
// signal has its default action the provider's handler stays: it removes the provider's files and
// then does the same.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_SIGNAL_GUARD_H_
