#include "tests/efa_device/shuffler.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace efa_device {

void Shuffler::Offer(std::string frame, Time now, std::vector<std::string>* ready) {
  const bool late = faults_.Strikes(Fault::kDelay);
  const bool reordered = faults_.Strikes(Fault::kReorder);
  if (late || reordered) {
    const uint64_t overtakers =
        late ? std::numeric_limits<uint64_t>::max() : 1 + faults_.Draw(Fault::kReorder, 8);
    held_.push_back(Held{std::move(frame), overtakers, now + faults_.delay()});
    return;
  }
  ready->push_back(std::move(frame));
  for (auto held = held_.begin(); held != held_.end();) {
    if (--held->overtakers == 0) {
      ready->push_back(std::move(held->frame));
      held = held_.erase(held);
    } else {
      ++held;
    }
  }
}

void Shuffler::TakeDue(Time now, std::vector<std::string>* ready) {
  for (auto held = held_.begin(); held != held_.end();) {
    if (held->due <= now) {
      ready->push_back(std::move(held->frame));
      held = held_.erase(held);
    } else {
      ++held;
    }
  }
}

Shuffler::Time Shuffler::NextDue() const {
  return std::min_element(held_.begin(), held_.end(),
                          [](const Held& a, const Held& b) { return a.due < b.due; })
      ->due;
}

}  // namespace efa_device
