// What a worker does and has, for people and for what watches it. A reading: the counts only grow
// as long as the worker lives, the rest is of the moment.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_WORKER_STATUS_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_WORKER_STATUS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/latency_histogram.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker::bootstrap {

struct FunctionCounts {
  uint64_t calls = 0;      // run
  uint64_t failures = 0;   // runs that reported a failure
  uint64_t bytes_in = 0;   // payloads of the requests that ran
  uint64_t bytes_out = 0;  // payloads of the responses to these, messages of failures included
  LatencyHistogram time;   // inside the function; of nearly all calls

  void Add(const FunctionCounts& other);
};

// The counts of functions, each by the fabric on which it was called.
class FunctionTable {
 public:
  using Key = std::pair<std::string, std::string>;  // function, provider

  // Clients name functions: those beyond so many are counted together, as "(others)".
  static constexpr size_t kMostFunctions = 1000;

  void Add(absl::string_view function, absl::string_view provider, const FunctionCounts& counts);
  void Add(const FunctionTable& other);

  const std::map<Key, FunctionCounts>& rows() const { return rows_; }

 private:
  std::map<Key, FunctionCounts> rows_;
};

// Executors of one kind: those that all clients share, or those of leases' own.
struct ExecutorsStatus {
  uint32_t starting = 0;
  uint32_t idle = 0;
  uint32_t busy = 0;      // run a function
  uint32_t sessions = 0;  // open
  // Leases have got so many processes. The server had to start the cold ones first.
  uint64_t starts = 0;
  uint64_t cold_starts = 0;
  uint64_t registered_bytes = 0;  // with fabrics, by their processes
  // Writes of requests that executors have taken from their fabrics, and not turned to yet.
  uint64_t requests_waiting = 0;
  FunctionTable functions;
};

// A lease that an executor's end has ended.
struct LostLease {
  uint64_t lease = 0;  // UsageRecord::lease; 0: it had not been granted yet
  std::string tenant;
  std::string reason;
  absl::Time at;
};

struct WorkerStatus {
  ExecutorsStatus shared;
  ExecutorsStatus leased;
  uint32_t leases_shared = 0;   // open, without executors of their own
  uint32_t leases_own = 0;      // open, with executors
  uint32_t leases_waiting = 0;  // in line
  uint64_t leases_lost = 0;
  std::vector<LostLease> last_lost;  // some of these, the newest first
  std::vector<DropCount> drops;      // every reason
  uint64_t downgrades = 0;           // sessions that have given up write-with-immediate
  uint64_t endpoints_given_up = 0;   // on shared executors; replaced where that is possible
};

// How often something was refused, and why.
using Refusals = std::vector<std::pair<std::string, uint64_t>>;

// The same of a whole server, with what its port for requests has counted.
struct ServerStatus {
  std::string address;  // the bootstrap's
  std::string version;
  absl::Time started;
  bool draining = false;
  std::vector<std::string> fabrics;  // providers, the best first
  Capacity capacity;
  WorkerStatus worker;
  std::vector<UsageRecord> open_leases;
  Refusals refused_connections;
  Refusals refused_session_tokens;
  uint64_t refused_sessions = 0;
  uint64_t refused_requests = 0;  // for want of a token or a tenant
  uint64_t bulk_bytes = 0;        // in use for payloads larger than the windows
  // When each certificate of the server ends, by its subject.
  std::vector<std::pair<std::string, absl::Time>> certificates;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_WORKER_STATUS_H_
