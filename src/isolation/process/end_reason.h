// From what is known of a process that has ended to what it means for its lease.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_END_REASON_H_
#define INVOKER_SRC_ISOLATION_PROCESS_END_REASON_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "src/isolation/process/executor_end.h"

namespace invoker {

// Why the server has killed a process.
enum class KillReason : uint8_t {
  kNone,
  kCallLimit,
  kLoadLimit,     // code took longer to load than a function may run
  kStartLimit,    // it was not ready in time
  kStopLimit,     // it did not stop in time
  kSocketClosed,  // it has closed its socket, or sent what is no message
  kNotNeeded,     // any more
  kStopped,       // a signal had stopped it, and nothing made it go on
};

// A process that a signal has stopped answers no call. It is killed if it has not gone on by then:
// so that its clients know within a second.
inline constexpr absl::Duration kStoppedLimit = absl::Milliseconds(800);

struct EndFacts {
  int wait_status = 0;  // waitpid(2)'s
  KillReason killed = KillReason::kNone;
  bool stop_requested = false;
  std::string function;       // that ran; empty: none
  uint64_t memory_bytes = 0;  // ExecutorTerms
  absl::Duration call_limit = absl::InfiniteDuration();
  absl::Duration start_limit = absl::InfiniteDuration();
  uint64_t address_space_limit = 0;     // in force; 0: none
  bool killed_by_memory_group = false;  // its cgroup counted a kill for want of memory
  // From the page.
  uint32_t exit_called = 0;
  bool out_of_memory = false;
  uint64_t overrun_bytes = 0;
  uint64_t fault_address = 0;
  uint64_t address_space_bytes = 0;
};

// Without the processor time.
ExecutorEnd JudgeEnd(const EndFacts& facts);

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_END_REASON_H_
