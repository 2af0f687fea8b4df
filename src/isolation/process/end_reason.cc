#include "src/isolation/process/end_reason.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("signal ", signal, " (SIG", name, ")")
                         : absl::StrCat("signal ", signal);
}

std::string InFunction(const EndFacts& facts) {
  return facts.function.empty() ? std::string(" outside of any function")
                                : absl::StrCat(" in function \"", facts.function, "\"");
}

std::string TheFunction(const EndFacts& facts) {
  return facts.function.empty() ? std::string("something that a function had started")
                                : absl::StrCat("function \"", facts.function, "\"");
}

// An allocation has failed, or all but a little of the limit was in use. What malloc(3) asks the
// kernel for at once is much more than what it was asked for.
bool AtMemoryLimit(const EndFacts& facts) {
  if (facts.killed_by_memory_group) return true;
  if (facts.memory_bytes == 0) return false;
  const uint64_t little = std::min<uint64_t>(1 << 20, facts.memory_bytes / 16);
  return facts.out_of_memory || (facts.address_space_limit != 0 &&
                                 facts.address_space_bytes + little >= facts.address_space_limit);
}

std::string MemoryReason(const EndFacts& facts) {
  return absl::StrCat("an executor reached its memory limit of ", facts.memory_bytes, " bytes",
                      InFunction(facts));
}

ExecutorEnd JudgeSignal(const EndFacts& facts, int signal) {
  const std::string name = SignalName(signal);
  switch (facts.killed) {
    case KillReason::kCallLimit:
      return {LeaseEndCause::kCallLimit,
              absl::StrCat("function \"", facts.function, "\" ran for longer than ",
                           absl::FormatDuration(facts.call_limit)),
              {}};
    case KillReason::kLoadLimit:
      return {LeaseEndCause::kCallLimit,
              absl::StrCat("code that was being loaded ran for longer than ",
                           absl::FormatDuration(facts.call_limit)),
              {}};
    case KillReason::kStartLimit:
      return {
          LeaseEndCause::kServer,
          absl::StrCat("an executor was not ready after ", absl::FormatDuration(facts.start_limit),
                       ", and was killed; a library of the server's may block when it is "
                       "loaded"),
          {}};
    case KillReason::kStopLimit:
      return {LeaseEndCause::kServer,
              absl::StrCat("an executor did not stop in time, and was killed",
                           facts.function.empty() ? "" : InFunction(facts)),
              {}};
    case KillReason::kNotNeeded:
      return {LeaseEndCause::kServer, "the server ended the executor", {}};
    case KillReason::kStopped:
      return {LeaseEndCause::kCrashed,
              absl::StrCat("an executor was stopped by a signal (SIGSTOP or its like)",
                           InFunction(facts), ", did not go on for ",
                           absl::FormatDuration(kStoppedLimit), ", and was killed"),
              {}};
    case KillReason::kSocketClosed:
      if (signal == SIGKILL && !AtMemoryLimit(facts)) {
        return {
            LeaseEndCause::kCrashed,
            absl::StrCat("an executor closed its connection to the server, or wrote to it what is "
                         "no message,",
                         InFunction(facts), ", and was killed"),
            {}};
      }
      break;
    case KillReason::kNone:
      break;
  }
  if (facts.overrun_bytes != 0) {
    return {LeaseEndCause::kCrashed,
            absl::StrCat(TheFunction(facts), " wrote ", facts.overrun_bytes,
                         " bytes beyond the end of its output"),
            {}};
  }
  if (AtMemoryLimit(facts)) {
    return {LeaseEndCause::kMemoryLimit,
            absl::StrCat(MemoryReason(facts), signal == SIGKILL ? "" : ", and ended by ",
                         signal == SIGKILL ? "" : name),
            {}};
  }
  const bool has_address = signal == SIGSEGV || signal == SIGBUS;
  return {LeaseEndCause::kCrashed,
          absl::StrCat(
              "an executor was ended by ", name, InFunction(facts),
              has_address ? absl::StrCat(", at address 0x", absl::Hex(facts.fault_address)) : ""),
          {}};
}

}  // namespace

ExecutorEnd JudgeEnd(const EndFacts& facts) {
  if (WIFSIGNALED(facts.wait_status)) return JudgeSignal(facts, WTERMSIG(facts.wait_status));
  const int status = WEXITSTATUS(facts.wait_status);
  if (facts.exit_called != 0) {
    return {LeaseEndCause::kExited,
            absl::StrCat(TheFunction(facts), " called exit(", facts.exit_called - 1, ")"),
            {}};
  }
  if (facts.stop_requested && status == 0 && facts.function.empty()) {
    return {LeaseEndCause::kReleased, "it was told to stop", {}};
  }
  return {LeaseEndCause::kExited,
          absl::StrCat(TheFunction(facts), " ended its executor's process with status ", status),
          {}};
}

}  // namespace invoker
