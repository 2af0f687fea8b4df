#include "src/transport/self_test/method_trial.h"

#include <algorithm>

namespace invoker::transport {
namespace {

int64_t Median(std::vector<int64_t>* values) {
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

}  // namespace

MethodTrial::MethodTrial(uint64_t inject_bytes, uint64_t most_bytes, int64_t now_ns)
    : most_bytes_(std::min(most_bytes, kLongest * inject_bytes)),
      end_ns_(now_ns + kLimitNs),
      bytes_(2 * inject_bytes) {
  for (std::vector<int64_t>& ns : ns_) ns.reserve(kRounds);
}

std::optional<MethodTrial::Round> MethodTrial::Next(int64_t now_ns) const {
  if (lost_ || bytes_ == 0 || bytes_ > most_bytes_ || now_ns >= end_ns_) return std::nullopt;
  return Round{bytes_, made_ % 2 == 0};
}

void MethodTrial::Add(int64_t ns) {
  const bool pieces = made_ % 2 == 0;
  if (made_ >= 2 * kWarmUps) ns_[pieces].push_back(ns);
  ++made_;
  if (made_ == 2 * (kWarmUps + kRounds)) Decide();
}

void MethodTrial::Decide() {
  const MethodTimes times = {bytes_, Median(&ns_[true]), Median(&ns_[false])};
  times_.push_back(times);
  lost_ = times.pieces_ns * 100 > times.write_ns * (100 - kLeastGainPercent);
  if (!lost_) pieces_up_to_ = bytes_;
  bytes_ *= 2;
  made_ = 0;
  for (std::vector<int64_t>& ns : ns_) ns.clear();
}

}  // namespace invoker::transport
