#include "src/launch/program.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/unique_fd.h"

namespace invoker::launch {
namespace {

absl::StatusOr<std::unique_ptr<Program>> Shell(const std::string& script) {
  ProgramSettings settings;
  settings.command = {"sh", "-c", script};
  settings.output = kNowhere;
  return Program::Start(settings);
}

TEST(Program, EndsAsAShellSaysIt) {
  EXPECT_EQ((*Shell("exit 7"))->Wait(), 7);
  EXPECT_EQ((*Shell("kill -TERM $$"))->Wait(), 128 + SIGTERM);
}

TEST(Program, IsToldSignalsAndWaitedFor) {
  const auto program = Shell("exec sleep 1000");
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_FALSE((*program)->AwaitEnd(absl::Milliseconds(1)));
  (*program)->Signal(SIGTERM);
  EXPECT_TRUE((*program)->AwaitEnd(absl::Seconds(60)));
  EXPECT_EQ((*program)->Wait(), 128 + SIGTERM);
  // Once more, and nobody else gets the signal.
  EXPECT_EQ((*program)->Wait(), 128 + SIGTERM);
  (*program)->Signal(SIGTERM);
}

TEST(Program, EndsWithItsObject) { EXPECT_TRUE(Shell("exec sleep 1000").ok()); }

TEST(Program, SaysThatThereIsNone) {
  ProgramSettings settings;
  settings.command = {"no-such-program"};
  const absl::Status status = Program::Start(settings).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

TEST(RunCommand, ReturnsWhatItPrintsWithItsVariables) {
  setenv("PROGRAM_TEST", "here", 1);
  EXPECT_EQ(*RunCommand({"sh", "-c", "echo $PROGRAM_TEST"}, -1), "here\n");
  ProgramSettings settings;
  settings.command = {"sh", "-c", "test \"$PROGRAM_TEST\" = there && test \"$(pwd)\" = /"};
  settings.variables = {{"PROGRAM_TEST", "there"}};
  settings.folder = "/";
  EXPECT_EQ((*Program::Start(settings))->Wait(), 0);
}

TEST(RunCommand, SaysWhyItFailed) {
  const absl::Status status = RunCommand({"sh", "-c", "echo why >&2; exit 3"}, -1).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(), "sh ended with status 3: why");
}

TEST(RunCommand, EndsWhenItIsToldToStop) {
  const UniqueFd stop(eventfd(1, EFD_CLOEXEC));
  EXPECT_TRUE(absl::IsCancelled(RunCommand({"sleep", "1000"}, stop.get()).status()));
}

}  // namespace
}  // namespace invoker::launch
