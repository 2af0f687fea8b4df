// Ctrl-C, and other signals to end, as events.

#ifndef INVOKER_TOOLS_INTERRUPT_H_
#define INVOKER_TOOLS_INTERRUPT_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/unique_fd.h"

namespace invoker::tools {

// While one exists (at most one may), the first SIGINT only sets it; the second has its former
// effect.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Waits for a SIGINT, no longer than `limit`. True if one has come.
  bool WaitFor(absl::Duration limit);
};

// A signalfd for SIGTERM, SIGINT and SIGHUP, which end nothing by themselves from here on. Before
// there are other threads.
absl::StatusOr<UniqueFd> TakeEndSignals();

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_INTERRUPT_H_
