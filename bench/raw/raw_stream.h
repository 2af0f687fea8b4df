// Many messages in flight between two raw endpoints: how many of them, or how many bytes, a fabric
// itself moves in a second.
//
// Message i lies in slot i of both windows, `slot_bytes` apart, as the calls under way lie apart in
// Invoker's windows. One side measures, the other one serves: the two functions of a pattern go
// together, and the server says when it is polling. Each thread has an endpoint of its own.

#ifndef INVOKER_BENCH_RAW_RAW_STREAM_H_
#define INVOKER_BENCH_RAW_RAW_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/raw/raw_endpoint.h"

namespace invoker::bench {

enum class StreamPattern {
  kAnswered,  // each message is answered by one of `answer_bytes`, which releases its slot
  kOutward,   // from the side that measures, a slot is free when its write has completed
  kInward,    // the same from the side that serves
};

struct StreamShape {
  StreamPattern pattern = StreamPattern::kAnswered;
  size_t bytes = 0;         // a message's
  size_t answer_bytes = 0;  // an answer's, with kAnswered
  size_t slot_bytes = 0;    // at least either
  uint32_t in_flight = 1;
};

// The line that tells a raw_peer to serve this pattern, once.
std::string StreamCommand(const StreamShape& shape);
// True if the line was such a command; it has been carried out then. Polls until the other side
// says that its turn is over; fails if nothing comes for ten seconds.
absl::StatusOr<bool> ServeStream(RawEndpoint* endpoint, absl::string_view line);

// The side that measures: for about `turn_ns`, after the other side has been told. Messages in a
// second (answers are not counted). `times_ns` gets, for kAnswered, the time from each write to its
// answer; nullptr: none.
//
// kInward takes `expected_per_s`, a guess of the rate, to ask for as many messages as take about
// that long.
absl::StatusOr<double> MeasureStream(RawEndpoint* endpoint, const StreamShape& shape,
                                     int64_t turn_ns, double expected_per_s,
                                     std::vector<int64_t>* times_ns);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_RAW_RAW_STREAM_H_
