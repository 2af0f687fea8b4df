#include "src/python/event.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cmath>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "src/python/gil.h"
#include "src/python/signals.h"

namespace invoker::python {

namespace py = pybind11;

void Event::Set() {
  absl::MutexLock lock(&mutex_);
  set_ = true;
}

bool Event::is_set() const {
  absl::MutexLock lock(&mutex_);
  return set_;
}

bool Event::Wait(std::optional<double> timeout) const {
  if (timeout.has_value() && std::isnan(*timeout)) {
    throw py::value_error("timeout is not a number");
  }
  const absl::Time end =
      timeout.has_value() ? absl::Now() + absl::Seconds(*timeout) : absl::InfiniteFuture();
  const bool looks_at_signals = OnMainThread();
  while (true) {
    const absl::Time look =
        looks_at_signals ? std::min(end, absl::Now() + kSignalsLookedAtEvery) : end;
    const bool is_set = WithoutGil([&] {
      absl::MutexLock lock(&mutex_);
      return mutex_.AwaitWithDeadline(absl::Condition(&set_), look);
    });
    if (looks_at_signals && SignalRaised()) throw py::error_already_set();
    if (is_set || look == end) return is_set;
  }
}

}  // namespace invoker::python
