// What programs that keep calls under way have in common: clients, the raw fabric's turn, and
// rates.

#ifndef INVOKER_BENCH_PROGRAMS_THROUGHPUT_H_
#define INVOKER_BENCH_PROGRAMS_THROUGHPUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/harness/distribution.h"
#include "bench/harness/server_process.h"
#include "bench/raw/raw_contender.h"
#include "bench/raw/raw_stream.h"
#include "invoker/client.h"

namespace invoker::bench {

// A client of one executor, and the function that it calls.
struct Caller {
  std::unique_ptr<Client> client;
  RemoteFunction function;
};

// So many clients of a server, with default options.
absl::StatusOr<std::vector<Caller>> ConnectCallers(const InvokerServer& server,
                                                   const std::string& provider, int clients,
                                                   const std::string& function);

// One turn of the raw fabric: messages per second. The peer blocks before and after it.
absl::StatusOr<double> RawTurn(const RawPair& pair, const StreamShape& shape, int64_t turn_ns,
                               double expected_per_s, std::vector<int64_t>* times_ns);

// Times that are kept of a turn.
inline constexpr size_t kTimesPerTurn = 50'000;

// The rate of each round, and the times of its calls.
struct RatedTimes {
  std::vector<double> rates;
  Rounds times;

  // Takes kTimesPerTurn of the times at most, evenly.
  void Add(double rate, const std::vector<int64_t>& times_ns);
};

// The band of one number for each round.
struct Band {
  double median = 0;
  double lowest = 0;
  double highest = 0;
};
// Zeros if there are no rounds.
Band BandOf(std::vector<double> rounds);
// The subject's ratio to the baseline, round by round.
Band RatioOf(const std::vector<double>& subject, const std::vector<double>& baseline);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_THROUGHPUT_H_
