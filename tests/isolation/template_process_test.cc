// What executors are forked from, without a spawner: that nobody waits for it who should not, and
// that it ends.

#include "src/isolation/spawner/template_process.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/isolation/process/executor_main.h"
#include "src/isolation/process/executor_page.h"

namespace invoker {
namespace {

using isolation::v1::FromTemplate;
using isolation::v1::ToTemplate;

// More messages than two sockets have room for.
constexpr int kMany = 5000;

ToTemplate Kill(uint64_t id) {
  ToTemplate message;
  message.mutable_kill()->set_id(id);
  return message;
}

std::unique_ptr<TemplateProcess> StartPrepared() {
  ToTemplate::Prepare prepare;
  prepare.mutable_environment()->add_providers("tcp;ofi_rxm");
  prepare.mutable_environment()->set_preferred_ip("127.0.0.1");
  prepare.mutable_environment()->set_window_bytes(2 << 20);
  // Nobody else's.
  if (const passwd* self = getpwuid(geteuid()); self != nullptr) prepare.set_user(self->pw_name);
  auto process = TemplateProcess::Start({"tools/invoker_executor", kTemplateArgument}, {}, prepare);
  EXPECT_TRUE(process.ok()) << process.status();
  if (!process.ok()) return nullptr;
  const absl::Status status = (*process)->WaitUntilPrepared(absl::Seconds(30));
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? *std::move(process) : nullptr;
}

FromTemplate Next(TemplateProcess* process) {
  FromTemplate event;
  auto message = process->socket().Receive(/*wait=*/true);
  EXPECT_TRUE(message.ok()) << message.status();
  if (message.ok()) {
    EXPECT_TRUE(event.ParseFromString(message->bytes));
  }
  return event;
}

TEST(TemplateProcess, SendDoesNotWaitForOneThatDoesNotRead) {
  auto process = TemplateProcess::Start({"/bin/sleep", "1000"}, {}, {});
  ASSERT_TRUE(process.ok()) << process.status();
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE((*process)->Send(Kill(1), {}).ok());
  // Nor does its end wait for what could not be sent.
}

// It answers, and nobody reads that before everything is sent: each would wait for the other.
TEST(TemplateProcess, SendDoesNotWaitForOneThatWaitsToBeHeard) {
  std::unique_ptr<TemplateProcess> process = StartPrepared();
  ASSERT_NE(process, nullptr);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  for (int i = 0; i < kMany; ++i) {
    ToTemplate spawn;
    spawn.mutable_spawn()->set_id(static_cast<uint64_t>(i));
    // One descriptor is too few; copies of it come along all the same.
    ASSERT_TRUE(process->Send(spawn, {ends[1]}).ok()) << i;
  }
  close(ends[1]);
  for (int i = 0; i < kMany; ++i) {
    const FromTemplate answer = Next(process.get());
    ASSERT_TRUE(answer.has_spawned()) << i;
    ASSERT_EQ(answer.spawned().id(), static_cast<uint64_t>(i));
    EXPECT_EQ(answer.spawned().text(),
              "the request came with 1 descriptors, not with two or three");
  }
  // Nobody has one of the copies any more.
  char none;
  EXPECT_EQ(read(ends[0], &none, 1), 0);
  close(ends[0]);
}

// Without groups of the kernel's.
TEST(TemplateProcess, ItEndsWhileStraysForkOn) {
  // So that they come here when it has ended.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  const std::string file = absl::StrCat(testing::TempDir(), "/forking_on.", getpid());
  std::ofstream(file) << "on";
  {
    std::unique_ptr<TemplateProcess> process = StartPrepared();
    ASSERT_NE(process, nullptr);
    auto sockets = ControlSocket::Pair();
    auto page = MappedPage::Create();
    ASSERT_TRUE(sockets.ok() && page.ok());
    ToTemplate spawn;
    spawn.mutable_spawn()->set_id(1);
    // Each starts the next one and ends.
    for (const std::string& word :
         {std::string("/bin/sh"), std::string("-c"),
          absl::StrCat("f() { test -e ", file, " && { f & } ; } ; f ; echo x >&3 ; exit 0")}) {
      spawn.mutable_spawn()->add_command(word);
    }
    ASSERT_TRUE(process->Send(spawn, {sockets->second.get(), page->second.get()}).ok());
    EXPECT_NE(Next(process.get()).spawned().pid(), 0u);
    // It has been told of the end of what it had forked, and the rest goes on.
    const FromTemplate ended = Next(process.get());
    EXPECT_TRUE(ended.has_ended());
    EXPECT_EQ(ended.ended().id(), 1u);
  }
  unlink(file.c_str());
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace invoker
