// What a lease is granted on, what it has used, and how it ended.

#ifndef INVOKER_SRC_INVOKE_LEASE_TERMS_H_
#define INVOKER_SRC_INVOKE_LEASE_TERMS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace invoker::security {
struct Tenant;
}  // namespace invoker::security

namespace invoker {

enum class Polling {
  kDefault,   // the worker's own
  kHot,       // always busy-polling while it has a session
  kWarm,      // blocks whenever there is nothing to do
  kAdaptive,  // hot for the hot timeout after the last message, then warm
};

enum class ExecutorKind {
  kNative,
  kPython,  // runs Python functions, and native ones as well
};

// What a client wants; as granted, what it got.
struct LeaseTerms {
  uint32_t executors = 0;  // the lease's own, a process each; 0: share the worker's
  ExecutorKind kind = ExecutorKind::kNative;
  uint64_t memory_bytes = 0;  // for each; 0: the worker's default
  Polling polling = Polling::kDefault;
  absl::Duration hot_timeout;  // for kAdaptive; may be infinite
  absl::Duration ttl;          // the lease ends after it; 0: the worker's choice
  absl::Duration call_limit;   // a function that runs longer ends the lease; 0: the worker's most
  absl::Duration wait;         // in line, for capacity; 0: not at all; may be infinite
  std::string tenant;          // whose bill; at most 128 printable characters
  // The client gives the worker up after so long a silence, and wants heartbeats that are frequent
  // enough for that; 0 or infinite: after what the worker says.
  absl::Duration peer_timeout;
  // What the tenant may do, by the server's policy; nullptr: there is none. The service's to fill
  // in: it does not travel.
  std::shared_ptr<const security::Tenant> allowed;
};

// What was used, by one lease or summed over a tenant's.
struct ResourceUsage {
  // Measured by the server from outside the executors: no function can change these.
  absl::Duration lease_time;  // executors x time that the lease was held
  absl::Duration cpu_time;    // the executors' processes, polling included
  uint64_t memory_byte_seconds = 0;
  // Counted by the executors.
  uint64_t calls = 0;
  absl::Duration function_time;
  absl::Duration polling_time;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
};

// Why a lease ended.
enum class LeaseEndCause {
  kReleased,
  kExpired,  // no heartbeat for too long
  kTtl,
  kCrashed,  // an executor was ended by a signal
  kExited,   // a function ended its process
  kMemoryLimit,
  kCallLimit,
  kServer,  // the worker's own doing: it stops, or could not go on
};

struct LeaseEnd {
  LeaseEndCause cause = LeaseEndCause::kServer;
  std::string reason;  // for people: which executor, function, signal or limit
  ResourceUsage usage;
};

enum class CodeKind {
  kLibrary,  // a shared library: of invoker_get_module, or of rFaaS functions
  kPython,   // a function by cloudpickle
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_LEASE_TERMS_H_
