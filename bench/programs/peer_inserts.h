// How many peers an endpoint can know, and what each costs: a reactor's peer table, and beside it a
// plain address vector of libfabric's.

#ifndef INVOKER_BENCH_PROGRAMS_PEER_INSERTS_H_
#define INVOKER_BENCH_PROGRAMS_PEER_INSERTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/harness/distribution.h"

namespace invoker::bench {

struct PeerFigures {
  uint32_t peers = 0;    // inserted
  std::string refused;   // why no more; empty: all that were asked for
  double our_bytes = 0;  // per peer, as are the provider's
  double provider_bytes = 0;
  double inserts_per_s = 0;
  double removals_per_s = 0;  // our own calls, one after the other
  double raw_inserts_per_s = 0;
  double raw_removals_per_s = 0;
  double polled_removals_per_s = 0;  // by a reactor that is polled, which does few at a time
  Distribution last_inserts;         // single inserts into the full table
  double slowest_insert_us = 0;      // slowest of all: when the table grows
};

// Inserts until `peers` are there, the provider refuses, or `patience_s` has passed.
absl::StatusOr<PeerFigures> MeasurePeers(const std::string& provider, const std::string& address,
                                         uint32_t peers, int patience_s);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_PEER_INSERTS_H_
