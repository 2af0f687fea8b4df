// Each way in which a peer goes away, done to real processes with calls under way.
//
// Every function here starts what it needs, breaks it, waits until all is over, and leaves nothing.
// One at a time, on the main thread (it starts processes).

#ifndef INVOKER_TESTS_FAILURE_SCENARIOS_H_
#define INVOKER_TESTS_FAILURE_SCENARIOS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/failure/execution_marks.h"
#include "tests/failure/flood.h"
#include "tests/failure/network_path.h"
#include "tests/integration/child_process.h"

namespace invoker::failure {

struct Setup {
  std::string provider;
  std::string listen_address = "127.0.0.1";  // the servers' bootstrap's
  std::string fabric_address;                // the servers' endpoints'; empty: the same
  std::string client_address;                // this side's endpoints'; empty: any
  size_t outstanding = 256;
  size_t largest = 4096;  // bytes of a call
  uint64_t seed = 1;
  // So many calls must have been answered before anything is broken.
  uint64_t warm_calls = 2000;
  absl::Duration peer_timeout = absl::Seconds(1);
  // Nothing waits longer than this for what should come within peer_timeout.
  absl::Duration patience = kPatience;
  // A client that is killed or stopped does it itself between two calls: not in the middle of a
  // post.
  bool between_posts = false;
  ExecutionMarks* marks = nullptr;
  NetworkPath* network = nullptr;  // where servers are; nullptr: here
  // For scenarios that cut something.
  std::function<absl::Status()> cut;
  std::function<absl::Status()> mend;
};

struct Outcome {
  uint64_t outstanding = 0;  // calls that the failure met
  double ended_ms = 0;       // from the failure until all of them had ended
  absl::Duration waits;      // the part that the worker has to wait before it may give a client up
  FloodResult calls;
  std::string next_call;     // the same session's: status and fate
  uint64_t next_differ = 0;  // calls after that one which ended differently
  double next_call_ms = 0;   // how long the first took to fail
  // From the worker's return until a call succeeded; no number: not part of it.
  double back_ms = std::numeric_limits<double>::quiet_NaN();
  uint64_t others_failed = 0;  // calls of sessions that nothing happened to
  double others_slowest_ms = std::numeric_limits<double>::quiet_NaN();  // the others'; or not part
  bool all_ended = false;
};

enum class Cuts : uint8_t {
  kNothing,
  kNetwork,      // Setup::cut cuts everything between client and server
  kPackets,      // the same, and nobody's link goes down
  kFabric,       // and the path to the server's bootstrap stays
  kFabricOfOne,  // the same, in Setup::network, whose servers' namespace keeps its fabric
};

struct Scenario {
  const char* name;
  const char* what;  // one line for people
  Cuts cuts;
  absl::StatusOr<Outcome> (*run)(const Setup& setup);
};

const std::vector<Scenario>& Scenarios();

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_SCENARIOS_H_
