#include "bench/programs/throughput.h"

#include <algorithm>
#include <utility>

#include "bench/harness/client_options.h"

namespace invoker::bench {

absl::StatusOr<std::vector<Caller>> ConnectCallers(const InvokerServer& server,
                                                   const std::string& provider, int clients,
                                                   const std::string& function) {
  std::vector<Caller> callers;
  const ClientOptions options = OptionsFor(provider);
  for (int i = 0; i < clients; ++i) {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server.target, options);
    if (!client.ok()) return client.status();
    absl::StatusOr<RemoteFunction> found = (*client)->Function(function);
    if (!found.ok()) return found.status();
    callers.push_back({*std::move(client), *std::move(found)});
  }
  return callers;
}

absl::StatusOr<double> RawTurn(const RawPair& pair, const StreamShape& shape, int64_t turn_ns,
                               double expected_per_s, std::vector<int64_t>* times_ns) {
  if (absl::Status status = pair.peer->WriteLine(StreamCommand(shape)); !status.ok()) return status;
  absl::StatusOr<double> rate =
      MeasureStream(pair.ours.get(), shape, turn_ns, expected_per_s, times_ns);
  if (!rate.ok()) return rate.status();
  const absl::StatusOr<std::string> done = pair.peer->ReadLine();
  if (!done.ok()) return done.status();
  if (*done != "done") return absl::InternalError(absl::StrCat("raw_peer said '", *done, "'"));
  return rate;
}

void RatedTimes::Add(double rate, const std::vector<int64_t>& times_ns) {
  rates.push_back(rate);
  std::vector<int64_t> kept;
  const size_t step = times_ns.size() / kTimesPerTurn + 1;
  for (size_t i = 0; i < times_ns.size(); i += step) kept.push_back(times_ns[i]);
  times.push_back(std::move(kept));
}

Band BandOf(std::vector<double> rounds) {
  if (rounds.empty()) return {};
  std::sort(rounds.begin(), rounds.end());
  const size_t middle = rounds.size() / 2;
  const double median =
      rounds.size() % 2 == 1 ? rounds[middle] : (rounds[middle - 1] + rounds[middle]) / 2;
  return {median, rounds.front(), rounds.back()};
}

Band RatioOf(const std::vector<double>& subject, const std::vector<double>& baseline) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(subject.size(), baseline.size()); ++i) {
    if (baseline[i] > 0) ratios.push_back(subject[i] / baseline[i]);
  }
  return BandOf(std::move(ratios));
}

}  // namespace invoker::bench
