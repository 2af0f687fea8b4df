#include "bench/harness/interleave.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace invoker::bench {
namespace {

// Begin has just let the other side run again: the first round trips of a turn fill its caches.
constexpr size_t kLeadIn = 5;

// How many round trips make a turn of the plan's length, by the median of what one took.
size_t TripsInTurn(const InterleavePlan& plan, std::vector<int64_t> times) {
  std::sort(times.begin(), times.end());
  const int64_t median = std::max<int64_t>(Percentile(times, 50), 1);
  return static_cast<size_t>(
      std::clamp<int64_t>(plan.turn_ns / median, plan.least, std::max(plan.least, plan.most)));
}

// Begin, bursts, End, the last also after a burst that failed.
absl::StatusOr<std::vector<int64_t>> TakeTurn(Contender* contender, size_t bytes, size_t trips) {
  absl::Status status = contender->Begin();
  if (status.ok()) {
    std::vector<int64_t> times(std::max(trips, kLeadIn));
    status = contender->Burst(bytes, absl::MakeSpan(times.data(), kLeadIn));
    times.resize(trips);
    if (status.ok()) status = contender->Burst(bytes, absl::MakeSpan(times));
    contender->End();
    if (status.ok()) return times;
  }
  return absl::Status(status.code(),
                      absl::StrCat(contender->name(), ", ", bytes, " bytes: ", status.message()));
}

}  // namespace

absl::StatusOr<std::vector<Measured>> Interleave(absl::Span<Contender* const> contenders,
                                                 const InterleavePlan& plan) {
  if (plan.least < 1 || plan.rounds < 0) {
    return absl::InvalidArgumentError("a plan needs at least one round trip in a turn");
  }
  std::vector<Measured> results;
  std::vector<size_t> trips;
  for (size_t bytes : plan.sizes) {
    for (const Contender* contender : contenders) results.push_back({contender, bytes, {}});
  }
  trips.assign(results.size(), static_cast<size_t>(plan.least));
  for (int round = 0; round <= plan.rounds; ++round) {
    for (size_t s = 0; s < plan.sizes.size(); ++s) {
      for (size_t turn = 0; turn < contenders.size(); ++turn) {
        const size_t c = (turn + static_cast<size_t>(round)) % contenders.size();
        const size_t at = s * contenders.size() + c;
        absl::StatusOr<std::vector<int64_t>> times =
            TakeTurn(contenders[c], plan.sizes[s], trips[at]);
        if (!times.ok()) return times.status();
        if (round == 0) {
          trips[at] = TripsInTurn(plan, *std::move(times));
        } else {
          results[at].rounds.push_back(*std::move(times));
        }
      }
    }
  }
  return results;
}

}  // namespace invoker::bench
