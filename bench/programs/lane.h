// The calls under way of one client, which one thread starts and takes.

#ifndef INVOKER_BENCH_PROGRAMS_LANE_H_
#define INVOKER_BENCH_PROGRAMS_LANE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/programs/throughput.h"
#include "invoker/client.h"

namespace invoker::bench {

// Oldest first.
class Lane {
 public:
  explicit Lane(const Caller* caller) : caller_(caller), calls_(kMostUnderWay) {}

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == calls_.size(); }
  int64_t oldest_ns() const { return calls_[first_].intended_ns; }

  void Start(Bytes payload, const CallOptions& options, int64_t intended_ns) {
    Pending& pending = calls_[(first_ + count_++) % calls_.size()];
    pending.future.emplace(caller_->client->InvokeAsync(caller_->function, payload, options));
    pending.intended_ns = intended_ns;
  }

  // Whether the oldest has ended, after `limit` at most.
  bool Wait(absl::Duration limit) { return calls_[first_].future->Wait(limit); }

  absl::StatusOr<Response> TakeOldest() {
    Pending& pending = calls_[first_];
    absl::StatusOr<Response> response = pending.future->Get();
    pending.future.reset();
    first_ = (first_ + 1) % calls_.size();
    --count_;
    return response;
  }

 private:
  // Far more than a system that keeps up has.
  static constexpr size_t kMostUnderWay = 1024;

  struct Pending {
    std::optional<Future> future;
    int64_t intended_ns = 0;
  };

  const Caller* caller_;
  std::vector<Pending> calls_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_LANE_H_
