// The preloaded library is for the program that it was preloaded into, and not for what that
// starts.

#include <cstdlib>

#include "tests/faults/fault_control.h"

namespace {

[[maybe_unused]] const bool kAlone = [] {
  invoker::faults::FaultControl::Get();
  unsetenv("LD_PRELOAD");
  unsetenv(invoker::faults::kCountsVariable);
  return true;
}();

}  // namespace
