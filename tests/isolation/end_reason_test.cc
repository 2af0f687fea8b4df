#include "src/isolation/process/end_reason.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <string>

namespace invoker {
namespace {
using testing::HasSubstr;

// The form that waitpid(2) gives.
int Exited(int status) { return status << 8; }

EndFacts Ended(int wait_status, const std::string& function = "f") {
  EndFacts facts;
  facts.wait_status = wait_status;
  facts.function = function;
  return facts;
}

TEST(EndReason, ASignalIsACrashInTheFunctionThatRan) {
  EXPECT_EQ(JudgeEnd(Ended(SIGFPE)).cause, LeaseEndCause::kCrashed);
  EXPECT_EQ(JudgeEnd(Ended(SIGFPE)).reason,
            "an executor was ended by signal 8 (SIGFPE) in function \"f\"");
  EXPECT_EQ(JudgeEnd(Ended(SIGABRT, "")).reason,
            "an executor was ended by signal 6 (SIGABRT) outside of any function");
}

TEST(EndReason, OnlyAnOrderlyStopIsARelease) {
  EndFacts facts = Ended(Exited(0), "");
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kExited);
  facts.stop_requested = true;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kReleased);
  facts.exit_called = 1;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kExited);
  EXPECT_THAT(JudgeEnd(facts).reason, HasSubstr("exit(0)"));
}

TEST(EndReason, MemoryIsToBlameOnlyUnderALimit) {
  EndFacts facts = Ended(SIGSEGV);
  facts.out_of_memory = true;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kCrashed);
  facts.memory_bytes = 1 << 20;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kMemoryLimit);
  facts.out_of_memory = false;
  facts.address_space_limit = 100 << 20;
  facts.address_space_bytes = 50 << 20;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kCrashed);
  facts.address_space_bytes = 100 << 20;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kMemoryLimit);
}

TEST(EndReason, AKillOfTheKernelsForWantOfMemoryIsTheLimits) {
  EndFacts facts = Ended(SIGKILL);
  facts.memory_bytes = 1 << 20;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kCrashed);
  facts.killed_by_memory_group = true;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kMemoryLimit);
  EXPECT_EQ(JudgeEnd(facts).reason,
            "an executor reached its memory limit of 1048576 bytes in function \"f\"");
  // Its socket is closed before its end is told.
  facts.killed = KillReason::kSocketClosed;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kMemoryLimit);
}

TEST(EndReason, AKillOfTheServersIsWhatItWasFor) {
  EndFacts facts = Ended(SIGKILL);
  facts.call_limit = absl::Seconds(2);
  facts.killed = KillReason::kCallLimit;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kCallLimit);
  EXPECT_EQ(JudgeEnd(facts).reason, "function \"f\" ran for longer than 2s");
  facts.killed = KillReason::kLoadLimit;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kCallLimit);
  EXPECT_EQ(JudgeEnd(facts).reason, "code that was being loaded ran for longer than 2s");
  facts.start_limit = absl::Seconds(30);
  facts.killed = KillReason::kStartLimit;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kServer);
  EXPECT_THAT(JudgeEnd(facts).reason, HasSubstr("was not ready after 30s"));
  facts.killed = KillReason::kStopLimit;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kServer);
  facts.killed = KillReason::kSocketClosed;
  EXPECT_EQ(JudgeEnd(facts).cause, LeaseEndCause::kCrashed);
  facts.killed = KillReason::kNone;
  EXPECT_THAT(JudgeEnd(facts).reason, HasSubstr("SIGKILL"));
}

TEST(EndReason, AnOverrunSaysHowFar) {
  EndFacts facts = Ended(SIGABRT);
  facts.overrun_bytes = 12;
  EXPECT_EQ(JudgeEnd(facts).reason, "function \"f\" wrote 12 bytes beyond the end of its output");
}

}  // namespace
}  // namespace invoker
