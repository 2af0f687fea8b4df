// Options of every client of a benchmark's server.

#ifndef INVOKER_BENCH_HARNESS_CLIENT_OPTIONS_H_
#define INVOKER_BENCH_HARNESS_CLIENT_OPTIONS_H_

#include <string>

#include "absl/time/time.h"
#include "invoker/client.h"

namespace invoker::bench {

// The defaults, on one fabric, without the limits of time by which silence counts as death. A
// benchmark stops its servers while others have their turn, for as long as that takes, and so does
// a busy machine. The end of a process still ends its sessions at once, since that closes its
// connections. A server's half of this is in StartInvokerServer.
inline ClientOptions OptionsFor(const std::string& provider) {
  ClientOptions options;
  options.provider = provider;
  options.connect_timeout = absl::Minutes(1);
  options.probe_timeout = absl::Minutes(1);
  options.peer_timeout = absl::InfiniteDuration();  // the server's
  return options;
}

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_CLIENT_OPTIONS_H_
