// The work and the holdings of an executor, summed over its sessions and endpoints.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_COUNTERS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_COUNTERS_H_

#include <cstdint>

#include "src/invoke/wire/drop_counters.h"

namespace invoker {

// Sessions that have ended are included.
struct ExecutorCounters {
  uint64_t executed = 0;
  uint64_t refused = 0;
  DropCounters dropped;  // bad messages
  uint64_t live_sessions = 0;
  // Held by the endpoints for peers. Peers that have gone are included until they are forgotten.
  uint64_t peers = 0;       // in the address vectors
  uint64_t regions = 0;     // that peers may write to
  uint64_t peers_kept = 0;  // among `peers`: gone, but the provider completes no operations to them
  // Addresses that peers of ended sessions may still write to, in bytes, and in how many places.
  uint64_t quarantined_bytes = 0;
  uint64_t quarantined_ranges = 0;
  // See UsageCounters.
  uint64_t function_ns = 0;
  uint64_t polling_ns = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;

  void Add(const ExecutorCounters& other) {
    executed += other.executed;
    refused += other.refused;
    LoadShared(other.dropped, &dropped);
    live_sessions += other.live_sessions;
    peers += other.peers;
    peers_kept += other.peers_kept;
    regions += other.regions;
    quarantined_bytes += other.quarantined_bytes;
    quarantined_ranges += other.quarantined_ranges;
    function_ns += other.function_ns;
    polling_ns += other.polling_ns;
    bytes_in += other.bytes_in;
    bytes_out += other.bytes_out;
  }

  // The counters that remain when the endpoint is closed.
  ExecutorCounters WithoutEndpoint() const {
    ExecutorCounters rest;
    rest.executed = executed;
    rest.refused = refused;
    rest.dropped = dropped;
    rest.function_ns = function_ns;
    rest.polling_ns = polling_ns;
    rest.bytes_in = bytes_in;
    rest.bytes_out = bytes_out;
    return rest;
  }
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_COUNTERS_H_
