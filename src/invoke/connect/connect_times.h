// Where the time of Client::Connect goes. Values; filled by the thread that connects.

#ifndef INVOKER_SRC_INVOKE_CONNECT_CONNECT_TIMES_H_
#define INVOKER_SRC_INVOKE_CONNECT_CONNECT_TIMES_H_

#include <cstdint>

#include "absl/time/time.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// The steps of connecting, in their order. Where several fabrics are tried, each step's time is
// that of all of them.
struct ConnectTimes {
  absl::Duration worker_info;  // the bootstrap's channel, and what the worker tells of itself
  absl::Duration discovery;    // which of the worker's fabrics this machine has
  absl::Duration lease;
  absl::Duration endpoint;  // opening ours, and allocating and registering the windows' memory
  absl::Duration session;   // the worker allocates and registers its half and answers with it
  absl::Duration probe;     // the first bytes through the data path, and back
};

// Adds the time of a scope to one step. Without times, does nothing.
class ConnectStep {
 public:
  ConnectStep(ConnectTimes* times, absl::Duration ConnectTimes::*step)
      : step_(times == nullptr ? nullptr : &(times->*step)),
        begin_ns_(times == nullptr ? 0 : transport::MonotonicNs()) {}
  ~ConnectStep() {
    if (step_ != nullptr) *step_ += absl::Nanoseconds(transport::MonotonicNs() - begin_ns_);
  }
  ConnectStep(const ConnectStep&) = delete;
  ConnectStep& operator=(const ConnectStep&) = delete;

 private:
  absl::Duration* step_;
  int64_t begin_ns_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_CONNECT_TIMES_H_
