// Keeps a program's handling of signals over the opening of a fabric.

#ifndef INVOKER_SRC_TRANSPORT_BASE_SIGNAL_GUARD_H_
#define INVOKER_SRC_TRANSPORT_BASE_SIGNAL_GUARD_H_

#include <signal.h>

#include <array>

namespace invoker::transport {

// For a program whose handlers of SIGINT and SIGTERM are its own affair, such as Python's, in which
// Ctrl-C would no longer raise KeyboardInterrupt: from now on SignalGuard puts them back. Before
// anything of libfabric is opened. Any thread.
void KeepSignalHandlers();

// A provider may install handlers of its own for SIGINT and SIGTERM when something of it is opened
// for the first time. A guard, around the calls into libfabric that open something and nothing
// else, notes the program's handlers, and puts back those that libfabric's have taken the place of:
// what the program itself has set meanwhile, on another thread, stays. Where a signal had its
// default action libfabric's handler stays, too: it removes the provider's files and then does the
// same.
//
// Does nothing before KeepSignalHandlers(). Any thread; guards of several threads may overlap.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};

  const bool keeps_;
  std::array<struct sigaction, kSignals.size()> noted_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_BASE_SIGNAL_GUARD_H_
