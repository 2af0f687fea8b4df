// A closed loop: a fixed number of calls under way, each of which is followed by another as soon as
// it has ended. One client thread; with callbacks, the clients' own helper threads.

#ifndef INVOKER_BENCH_PROGRAMS_CLOSED_LOOP_H_
#define INVOKER_BENCH_PROGRAMS_CLOSED_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/programs/throughput.h"

namespace invoker::bench {

// The ways in which the API lets one thread have many calls under way.
enum class Api {
  kFuture,    // InvokeAsync returns a Future: take the oldest one's result, start another
  kCallback,  // InvokeAsync with a CallDone, which starts the next call
};
absl::string_view ApiName(Api api);

struct ClosedLoop {
  Api api = Api::kFuture;
  size_t bytes = 0;        // a request's
  bool exact_room = true;  // for its response; else what CallOptions gives by default
  int outstanding = 1;     // for each caller
};

// Calls per second of all callers, over a turn of `turn_ns`. `times_ns` gets the time from each
// call's start to its end. Fails if a call fails, or returns anything but as many bytes.
absl::StatusOr<double> RunClosedLoop(absl::Span<const Caller> callers, const ClosedLoop& loop,
                                     int64_t turn_ns, std::vector<int64_t>* times_ns);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_CLOSED_LOOP_H_
