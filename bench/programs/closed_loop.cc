#include "bench/programs/closed_loop.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "bench/raw/turn_meter.h"

namespace invoker::bench {
namespace {

// Room for so many times, so that collecting them copies nothing within a turn.
constexpr size_t kCallsPerTurn = 1 << 19;

absl::Status CheckResult(const absl::StatusOr<Response>& response, size_t bytes) {
  if (!response.ok()) return response.status();
  if (response->size() == bytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("noop returned ", response->size(), " bytes instead of ", bytes));
}

CallOptions OptionsFor(const ClosedLoop& loop) {
  CallOptions options;
  if (loop.exact_room) options.response_capacity = static_cast<uint32_t>(loop.bytes);
  return options;
}

absl::StatusOr<double> RunFutures(absl::Span<const Caller> callers, const ClosedLoop& loop,
                                  int64_t turn_ns, std::vector<int64_t>* times_ns) {
  struct Started {
    Future future;
    int64_t at_ns;
  };
  const std::vector<std::byte> payload(loop.bytes);
  const CallOptions options = OptionsFor(loop);
  const auto start = [&](size_t i) {
    const Caller& caller = callers[i % callers.size()];
    return caller.client->InvokeAsync(caller.function, Bytes(payload), options);
  };
  times_ns->reserve(times_ns->size() + kCallsPerTurn);
  TurnMeter meter(turn_ns, times_ns);
  std::vector<Started> calls;
  for (size_t i = 0; i < callers.size() * static_cast<size_t>(loop.outstanding); ++i) {
    const int64_t now_ns = ClockNs();
    calls.push_back({start(i), now_ns});
  }
  // Once the turn is over, each is awaited and none is started.
  size_t under_way = calls.size();
  for (size_t i = 0; under_way > 0; i = i + 1 == calls.size() ? 0 : i + 1) {
    const absl::Status status = CheckResult(calls[i].future.Get(), loop.bytes);
    if (!status.ok()) return status;
    const int64_t now_ns = ClockNs();
    if (under_way == calls.size() && meter.Complete(calls[i].at_ns, now_ns)) {
      calls[i].future = start(i);
      calls[i].at_ns = now_ns;
    } else {
      --under_way;
    }
  }
  return meter.PerSecond();
}

// What the callbacks of one turn share. Those of one client come one after the other, those of
// several from several threads.
class CallbackTurn {
 public:
  CallbackTurn(absl::Span<const Caller> callers, const ClosedLoop& loop, int64_t turn_ns)
      : loop_(loop), options_(OptionsFor(loop)), payload_(loop.bytes) {
    for (const Caller& caller : callers) {
      lanes_.push_back(std::make_unique<Lane>(&caller, turn_ns));
    }
  }

  absl::StatusOr<double> Run(std::vector<int64_t>* times_ns) {
    {
      absl::MutexLock lock(&mutex_);
      active_ = static_cast<int>(lanes_.size()) * loop_.outstanding;
    }
    for (int i = 0; i < loop_.outstanding; ++i) {
      for (const std::unique_ptr<Lane>& lane : lanes_) Start(lane.get(), ClockNs());
    }
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* active) { return *active == 0; }, &active_));
    if (!failure_.ok()) return failure_;
    double per_second = 0;
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      per_second += lane->meter.PerSecond();
      times_ns->insert(times_ns->end(), lane->times_ns.begin(), lane->times_ns.end());
    }
    return per_second;
  }

 private:
  // One client's; only its callbacks touch it.
  struct Lane {
    Lane(const Caller* caller, int64_t turn_ns) : caller(caller), meter(turn_ns, &times_ns) {
      times_ns.reserve(kCallsPerTurn);
    }

    const Caller* caller;
    std::vector<int64_t> times_ns;
    TurnMeter meter;
  };

  void Start(Lane* lane, int64_t now_ns) {
    lane->caller->client->InvokeAsync(lane->caller->function, Bytes(payload_), options_,
                                      [this, lane, now_ns](absl::StatusOr<Response> response) {
                                        Done(lane, now_ns, std::move(response));
                                      });
  }

  void Done(Lane* lane, int64_t started_ns, absl::StatusOr<Response> response) {
    absl::Status status;
    {
      // Gone before the next call, which can use its cells.
      const absl::StatusOr<Response> taken = std::move(response);
      status = CheckResult(taken, loop_.bytes);
    }
    if (status.ok()) {
      const int64_t now_ns = ClockNs();
      if (lane->meter.Complete(started_ns, now_ns)) {
        Start(lane, now_ns);
        return;
      }
    }
    absl::MutexLock lock(&mutex_);
    failure_.Update(status);
    --active_;
  }

  const ClosedLoop& loop_;
  const CallOptions options_;
  const std::vector<std::byte> payload_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  absl::Mutex mutex_;
  int active_ = 0;        // under mutex_
  absl::Status failure_;  // under mutex_
};

}  // namespace

absl::string_view ApiName(Api api) { return api == Api::kFuture ? "future" : "callback"; }

absl::StatusOr<double> RunClosedLoop(absl::Span<const Caller> callers, const ClosedLoop& loop,
                                     int64_t turn_ns, std::vector<int64_t>* times_ns) {
  if (loop.api == Api::kFuture) return RunFutures(callers, loop, turn_ns, times_ns);
  return CallbackTurn(callers, loop, turn_ns).Run(times_ns);
}

}  // namespace invoker::bench
