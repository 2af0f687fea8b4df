// How a reactor ends, and where it waits until its endpoint can be closed. Any thread, once the
// reactor has no driver.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_RETIREMENT_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_RETIREMENT_H_

#include <memory>
#include <vector>

#include "src/transport/reactor/reactor.h"

namespace invoker::transport {

class ReactorRetirement {
 public:
  // Releases a reactor, or retires it. Unless `quiet`, a peer's write may be half received. On a
  // fabric whose endpoints cannot be closed then, this polls for some milliseconds until
  // PostQuiesceWrite's write is over. If that takes longer, as with a peer that is stopped, or
  // there is no such write, the reactor is retired, with its memory: each further call looks
  // whether it can be released. A reactor whose endpoint is quarantined stays until the process
  // ends. With nullptr, only looks at retired reactors.
  static void Retire(std::unique_ptr<Reactor> reactor, bool quiet);

 private:
  static std::vector<std::unique_ptr<Reactor>> TakeReleasable();
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_RETIREMENT_H_
