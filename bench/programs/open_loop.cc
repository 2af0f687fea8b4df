#include "bench/programs/open_loop.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/programs/lane.h"
#include "bench/raw/round_trips.h"

namespace invoker::bench {
namespace {

// Calls that are due are started without a look at what has ended, up to so many.
constexpr int kMostAtOnce = 32;

class OpenLoop {
 public:
  OpenLoop(absl::Span<const Caller> callers, size_t bytes, std::vector<int64_t>* times_ns)
      : payload_(bytes), times_ns_(times_ns) {
    for (const Caller& caller : callers) lanes_.emplace_back(&caller);
    options_.response_capacity = static_cast<uint32_t>(bytes);
  }

  absl::StatusOr<OpenLoopResult> Run(absl::Span<const int64_t> schedule, int64_t turn_ns) {
    const int64_t begin_ns = ClockNs();
    const int64_t stop_ns = begin_ns + 2 * turn_ns;
    OpenLoopResult result;
    size_t next = 0;
    int started_at_once = 0;
    while (true) {
      const int64_t now_ns = ClockNs();
      if (now_ns >= stop_ns) next = schedule.size();
      Lane* oldest = Oldest();
      const bool started_all = next == schedule.size();
      if (started_all && oldest == nullptr) break;
      absl::Duration pause = absl::InfiniteDuration();
      if (!started_all) {
        const int64_t due_ns = begin_ns + schedule[next];
        Lane& lane = lanes_[next % lanes_.size()];
        if (lane.full()) {
          // Far behind: any call that ends makes room.
          pause = absl::Nanoseconds(stop_ns - now_ns);
        } else if (now_ns >= due_ns) {
          lane.Start(Bytes(payload_), options_, due_ns);
          ++next;
          // The next one may be due already: then it leaves along with this one.
          if (++started_at_once < kMostAtOnce && next < schedule.size() &&
              ClockNs() >= begin_ns + schedule[next]) {
            continue;
          }
          started_at_once = 0;
          pause = absl::ZeroDuration();
          oldest = Oldest();
        } else {
          pause = absl::Nanoseconds(due_ns - now_ns);
        }
      }
      if (oldest == nullptr || !oldest->Wait(pause)) continue;
      if (absl::Status status = TakeEnded(oldest); !status.ok()) return status;
    }
    result.completed = times_ns_->size() - before_;
    result.ns = std::max(turn_ns, ClockNs() - begin_ns);
    return result;
  }

 private:
  // The lane with calls under way whose oldest call was to start first.
  Lane* Oldest() {
    Lane* oldest = nullptr;
    for (Lane& lane : lanes_) {
      if (lane.empty()) continue;
      if (oldest == nullptr || lane.oldest_ns() < oldest->oldest_ns()) oldest = &lane;
    }
    return oldest;
  }

  // `oldest` has a call that has ended, and perhaps others have.
  absl::Status TakeEnded(Lane* oldest) {
    if (absl::Status status = Take(oldest); !status.ok()) return status;
    for (Lane& lane : lanes_) {
      while (!lane.empty() && lane.Wait(absl::ZeroDuration())) {
        if (absl::Status status = Take(&lane); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Take(Lane* lane) {
    const int64_t intended_ns = lane->oldest_ns();
    const absl::StatusOr<Response> response = lane->TakeOldest();
    times_ns_->push_back(ClockNs() - intended_ns);
    if (!response.ok()) return response.status();
    if (response->size() == payload_.size()) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("noop returned ", response->size(), " bytes instead of ", payload_.size()));
  }

  const std::vector<std::byte> payload_;
  CallOptions options_;
  std::vector<Lane> lanes_;
  std::vector<int64_t>* times_ns_;
  size_t before_ = times_ns_->size();
};

}  // namespace

std::vector<int64_t> MakeSchedule(double calls_per_s, bool poisson, uint64_t seed,
                                  int64_t turn_ns) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gaps(1.0);
  const double mean_ns = 1e9 / calls_per_s;
  std::vector<int64_t> schedule;
  schedule.reserve(static_cast<size_t>(1.1 * static_cast<double>(turn_ns) / mean_ns) + 16);
  double at_ns = 0;
  while (true) {
    at_ns += mean_ns * (poisson ? gaps(random) : 1.0);
    if (at_ns >= static_cast<double>(turn_ns)) return schedule;
    schedule.push_back(static_cast<int64_t>(at_ns));
  }
}

absl::StatusOr<OpenLoopResult> RunOpenLoop(absl::Span<const Caller> callers, size_t bytes,
                                           absl::Span<const int64_t> schedule, int64_t turn_ns,
                                           std::vector<int64_t>* times_ns) {
  times_ns->reserve(times_ns->size() + schedule.size());
  return OpenLoop(callers, bytes, times_ns).Run(schedule, turn_ns);
}

}  // namespace invoker::bench
