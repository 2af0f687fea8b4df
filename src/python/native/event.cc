#include "src/python/native/event.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/time/time.h"
#include "src/python/native/gil.h"
#include "src/python/native/signals.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::python {

namespace py = pybind11;

bool Event::Wait(std::optional<double> timeout) const {
  if (timeout.has_value() && std::isnan(*timeout)) {
    throw py::value_error("timeout is not a number");
  }
  const absl::Duration limit =
      timeout.has_value() ? absl::Seconds(*timeout) : absl::InfiniteDuration();
  const int64_t began_ns = transport::MonotonicNs();
  absl::Duration left = limit;
  const bool looks_at_signals = OnMainThread();
  const absl::Duration slice = looks_at_signals ? kSignalsLookedAtEvery : absl::InfiniteDuration();
  do {
    WithoutGil([&] {
      flag_.Wait(std::min(left, slice));
      return true;
    });
    // They may set it.
    if (looks_at_signals && SignalRaised()) throw py::error_already_set();
    if (is_set()) return true;
    left = limit - absl::Nanoseconds(transport::MonotonicNs() - began_ns);
  } while (left > absl::ZeroDuration());
  return false;
}

}  // namespace invoker::python
