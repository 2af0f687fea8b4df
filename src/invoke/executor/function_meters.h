// What an executor has done of each function on each fabric, for readers, perhaps in another
// process. It stays readable after a crash.
//
// The executor's thread writes, with plain stores. Any thread of any process may read, at any time.
// Trust it no further than the functions that the executor runs: they share its memory.
//
// It is large and mostly never touched, so its memory is mapped and full of zeros: it has no
// constructor. The kernel gives pages to what has been called only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_FUNCTION_METERS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_FUNCTION_METERS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/base/latency_histogram.h"
#include "src/bootstrap/messages/worker_status.h"

namespace invoker {

// One function's on one fabric.
class FunctionMeter {
 public:
  // The executor's thread.
  void CountRun(uint64_t bytes_in) {
    Add(&calls_, 1);
    Add(&bytes_in_, bytes_in);
  }
  void TakeBackRun(uint64_t bytes_in) {
    Add(&calls_, uint64_t{0} - 1);
    Add(&bytes_in_, uint64_t{0} - bytes_in);
  }
  void CountFailure() { Add(&failures_, 1); }
  void CountOutput(uint64_t bytes) { Add(&bytes_out_, bytes); }
  void CountTime(uint64_t ns) {
    Add(&times_[LatencyBuckets::Of(ns)], 1);
    Add(&time_ns_, ns);
  }

  // Any thread of any process. The fields may be of different calls.
  bootstrap::FunctionCounts Read() const {
    bootstrap::FunctionCounts counts;
    counts.calls = calls_.load(std::memory_order_relaxed);
    counts.failures = failures_.load(std::memory_order_relaxed);
    counts.bytes_in = bytes_in_.load(std::memory_order_relaxed);
    counts.bytes_out = bytes_out_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < times_.size(); ++i) {
      counts.time.counts[i] = times_[i].load(std::memory_order_relaxed);
    }
    counts.time.sum_ns = time_ns_.load(std::memory_order_relaxed);
    return counts;
  }
  bool used() const { return calls_.load(std::memory_order_relaxed) != 0; }

 private:
  using Count = std::atomic<uint64_t>;

  // One thread writes, so that no locked instruction is needed.
  static void Add(Count* count, uint64_t more) {
    count->store(count->load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  Count calls_;
  Count failures_;
  Count bytes_in_;
  Count bytes_out_;
  Count time_ns_;
  std::array<Count, LatencyBuckets::kCount> times_;
};
static_assert(sizeof(FunctionMeter) == 512, "found by a shift");

class FunctionMeters {
 public:
  // Further fabrics and functions share the last one's place.
  static constexpr size_t kFabrics = 8;
  static constexpr size_t kFunctions = 512;

  // The functions of one fabric, for the executor's thread.
  class Row {
   public:
    Row() = default;  // counts nothing
    explicit Row(FunctionMeter* first) : first_(first) {}

    // nullptr: nobody counts.
    FunctionMeter* Of(uint16_t function) const {
      return first_ == nullptr ? nullptr : first_ + PlaceOf(function);
    }

   private:
    FunctionMeter* first_ = nullptr;
  };

  Row OfFabric(size_t fabric) { return Row(meters_[std::min(fabric, kFabrics - 1)].data()); }
  // Before the first call on it.
  void SetProvider(size_t fabric, absl::string_view provider) {
    std::array<char, kNameBytes>& name = names_[std::min(fabric, kFabrics - 1)];
    memcpy(name.data(), provider.data(), std::min(provider.size(), name.size() - 1));
  }

  // The fabrics, in order. A reader in another process asks once, before functions run that could
  // write here.
  std::vector<std::string> Providers() const {
    std::vector<std::string> providers;
    for (const std::array<char, kNameBytes>& name : names_) {
      if (name.front() == 0) break;
      providers.emplace_back(name.data(), strnlen(name.data(), name.size()));
    }
    return providers;
  }

  // Any thread of any process. `providers` are the fabrics. `visit` gets a fabric's provider, a
  // function's id and a FunctionCounts, for each that has run.
  template <typename Visitor>
  void ForEach(const std::vector<std::string>& providers, Visitor&& visit) const {
    for (size_t fabric = 0; fabric < std::min(providers.size(), kFabrics); ++fabric) {
      const std::string& provider = providers[fabric];
      for (size_t function = 0; function < kFunctions; ++function) {
        const FunctionMeter& meter = meters_[fabric][function];
        if (meter.used()) visit(provider, static_cast<uint16_t>(function), meter.Read());
      }
    }
  }

 private:
  static constexpr size_t kNameBytes = 32;

  static size_t PlaceOf(uint16_t function) { return std::min<size_t>(function, kFunctions - 1); }

  std::array<std::array<char, kNameBytes>, kFabrics> names_;
  std::array<std::array<FunctionMeter, kFunctions>, kFabrics> meters_;
};

static_assert(std::is_trivially_destructible_v<FunctionMeters>, "it is mapped memory");

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_FUNCTION_METERS_H_
