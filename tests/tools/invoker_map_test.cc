// `invoker map`, and `invoker call --lease`, as a shell user sees them.

#include <gmock/gmock.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kFiles = 40;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

class InvokerMapTest : public ServerTest {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/map.XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    ASSERT_EQ(RunToEnd({{"/bin/mkdir", Path("in"), Path("in/below")}}).exit_code, 0);
    for (int i = 0; i < kFiles; ++i) {
      std::ofstream(Path("in/" + Name(i)), std::ios::binary) << RandomBytes(i * 1000, i + 1);
    }
    std::ofstream(Path("in/.hidden")) << "hidden";
    std::ofstream(Path("in/below/file")) << "below";
  }
  void TearDown() override {
    ServerTest::TearDown();
    EXPECT_EQ(RunToEnd({{"/bin/rm", "-r", directory_}}).exit_code, 0);
  }

  // Starts a server with two shared executors, and four to lease.
  ServerProcess* Start() {
    const passwd* user = getpwuid(geteuid());
    return StartServer(
        {.provider = "tcp;ofi_rxm",
         .executors = 2,
         .more = {"--lease-cores=4", "--prestart=1",
                  absl::StrCat("--executor-user=", user != nullptr ? user->pw_name : "")}});
  }

  static std::string Name(int i) { return absl::StrCat("file", i); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  Finished Map(const std::string& servers, const std::string& function,
               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"tools/invoker",
                                        "map",
                                        function,
                                        "--servers=" + servers,
                                        "--inputs=" + Path("in"),
                                        "--outputs=" + Path("out")};
    command.insert(command.end(), more.begin(), more.end());
    return RunToEnd({.command = command});
  }
  void ExpectEveryOutput() const {
    for (int i = 0; i < kFiles; ++i) {
      EXPECT_TRUE(ReadFile(Path("out/" + Name(i))) == ReadFile(Path("in/" + Name(i)))) << i;
    }
    EXPECT_EQ(RunToEnd({{"/bin/sh", "-c", "ls -A " + Path("out") + " | wc -l"}}).output,
              absl::StrCat(kFiles, "\n"));
  }

  std::string directory_;
};

TEST_F(InvokerMapTest, EveryFileHasItsAnswer) {
  ServerProcess* server = Start();
  ServerProcess* other = Start();
  ASSERT_NE(server, nullptr);
  ASSERT_NE(other, nullptr);
  const Finished finished =
      Map(absl::StrCat(server->address(), ",", other->address()), "test.echo");
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_EQ(finished.output, "");
  // A plain line for each tenth, since nothing here is a terminal.
  EXPECT_THAT(finished.errors, HasSubstr("invoker: 4 of 40 done\n"));
  EXPECT_THAT(finished.errors, HasSubstr("invoker: 40 of 40 done\n"));
  ExpectEveryOutput();
}

TEST_F(InvokerMapTest, LeasedExecutorsDoTheSameAndSendTheirBill) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  const Finished finished = Map(server->address(), "test.echo",
                                {"--lease", "--executors=3", "--quiet", "-v", "--tenant=tester"});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_THAT(finished.errors, HasSubstr("3 executors: 40 calls, "));
  EXPECT_THAT(finished.errors, Not(HasSubstr("of 40 done")));
  ExpectEveryOutput();
  const Finished usage =
      RunToEnd({{"tools/invoker", "usage", "--server=" + server->address(), "--tenant=tester"}});
  EXPECT_EQ(usage.exit_code, 0) << usage.errors;
  EXPECT_THAT(usage.output, HasSubstr("tester"));
}

// Each takes everything there is, so that one that held one server's executors and waited for the
// other's could wait for somebody who does the opposite.
TEST_F(InvokerMapTest, ThoseThatWaitForSeveralServersDoNotWaitForOneAnother) {
  ServerProcess* server = Start();
  ServerProcess* other = Start();
  ASSERT_NE(server, nullptr);
  ASSERT_NE(other, nullptr);
  const std::vector<std::string> orders = {absl::StrCat(server->address(), ",", other->address()),
                                           absl::StrCat(other->address(), ",", server->address())};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([this, i, &orders] {
      const Finished finished = RunToEnd(
          {.command = {"tools/invoker", "map", "test.echo", "--servers=" + orders[i % 2],
                       "--inputs=" + Path("in"), absl::StrCat("--outputs=", Path("out"), i),
                       "--lease", "--executors=8", "--wait=3m", "--quiet"}});
      EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(InvokerMapTest, FailuresAreListedAndTheRestIsDone) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  const Finished finished = Map(server->address(), "test.echo", {"--response-capacity=37000"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_EQ(finished.output, "");
  for (const char* part : {"invoker: error: file38: ", "invoker: error: file39: ", "[executed]",
                           "40 files: 38 done, 2 failed, 0 not called"}) {
    EXPECT_THAT(finished.errors, HasSubstr(part));
  }
  EXPECT_THAT(finished.errors, Not(HasSubstr("file37: ")));
  EXPECT_EQ(access(Path("out/file37").c_str(), F_OK), 0);
  EXPECT_NE(access(Path("out/file38").c_str(), F_OK), 0);
}

TEST_F(InvokerMapTest, AFileLargerThanTheWindowIsNotSentAndItsErrorSaysWhatTakesIt) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  std::ofstream(Path("in/large"), std::ios::binary) << std::string(3'000'000, 'x');
  const Finished finished = Map(server->address(), "test.echo");
  EXPECT_EQ(finished.exit_code, 1);
  for (const char* part : {"invoker: error: large: 3000000 bytes", "--window", "invoker call",
                           "[not_sent]", "41 files: 40 done, 1 failed, 0 not called"}) {
    EXPECT_THAT(finished.errors, HasSubstr(part));
  }
}

TEST_F(InvokerMapTest, AfterAFailureNoMoreIsCalledIfAsked) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  const Finished finished =
      Map(server->address(), "test.fail", {"--stop-on-error", "--max-in-flight=1"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.errors, HasSubstr("40 files: 0 done, 1 failed, 39 not called"));
}

TEST_F(InvokerMapTest, InputsAreNotOverwritten) {
  const std::string before = ReadFile(Path("in/file7"));
  for (const std::string& outputs : {Path("in"), Path("in/../in/."), Path("link")}) {
    if (outputs == Path("link")) {
      ASSERT_EQ(symlink("in", outputs.c_str()), 0);
    }
    // No server is needed to find that out.
    const Finished finished = Map("127.0.0.1:1", "test.twice", {"--outputs=" + outputs});
    EXPECT_EQ(finished.exit_code, 2) << finished.errors;
  }
  const auto run = [&](const std::string& outputs) {
    return RunToEnd({{"tools/invoker", "map", "test.twice", "--server=127.0.0.1:1",
                      "--inputs=" + Path("in"), "--outputs=" + outputs}});
  };
  const Finished same = run(Path("link"));
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_THAT(same.errors, HasSubstr("is the directory of the inputs"));
  ASSERT_EQ(RunToEnd({{"/bin/mkdir", Path("out")}}).exit_code, 0);
  ASSERT_EQ(symlink("../in/file7", Path("out/file7").c_str()), 0);
  const Finished linked = run(Path("out"));
  EXPECT_EQ(linked.exit_code, 2);
  EXPECT_THAT(linked.errors, HasSubstr("out/file7"));
  EXPECT_EQ(ReadFile(Path("in/file7")), before);
}

TEST_F(InvokerMapTest, WhatCannotBeReadOrReachedIsSaid) {
  const auto run = [&](const std::string& inputs) {
    return RunToEnd({{"tools/invoker", "map", "test.echo", "--server=127.0.0.1:1",
                      "--inputs=" + inputs, "--outputs=" + Path("out")}});
  };
  const Finished missing = run(Path("nothing"));
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.errors, HasSubstr("nothing"));
  ASSERT_EQ(RunToEnd({{"/bin/mkdir", Path("empty")}}).exit_code, 0);
  const Finished empty = run(Path("empty"));
  EXPECT_EQ(empty.exit_code, 0) << empty.errors;
  EXPECT_THAT(empty.errors, HasSubstr("no files"));
  const Finished file = RunToEnd({{"tools/invoker", "map", "test.echo", "--server=127.0.0.1:1",
                                   "--inputs=" + Path("in"), "--outputs=" + Path("in/file7")}});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_THAT(file.errors, HasSubstr("in/file7 is there already, and is no directory"));
  EXPECT_EQ(Map("127.0.0.1:1", "test.echo", {"--max-in-flight=-1"}).exit_code, 2);
  EXPECT_EQ(run(Path("in")).exit_code, 3);
  EXPECT_EQ(Map("127.0.0.1:1", "test.echo", {"--executors=2"}).exit_code, 2);
}

TEST_F(InvokerMapTest, ACallMayLeaseItsExecutor) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  const auto call = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"tools/invoker", "call", "test.twice",
                                        "--server=" + server->address(), "--lease"};
    command.insert(command.end(), more.begin(), more.end());
    return RunToEnd({.command = command, .input = "ab"});
  };
  const Finished finished = call({"-v", "--polling=warm", "--ttl=1m"});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_EQ(finished.output, "abab");
  EXPECT_THAT(finished.errors, HasSubstr("1 executor: 1 call, "));
  const Finished refused = call({"--upload=tests/functions/c_functions.so"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("--upload=tests/functions/c_functions.so"));
  EXPECT_THAT(refused.errors, HasSubstr("--allow-upload"));
  EXPECT_EQ(call({"--executors=100"}).exit_code, 2);
  const Finished bad = call({"--polling=lukewarm"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.errors, HasSubstr("lukewarm"));
}

TEST_F(InvokerMapTest, CtrlCEndsACallAndItsLease) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  // More than the server has cores, one after the other.
  for (int i = 0; i < 6; ++i) {
    Rendezvous rendezvous;
    absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(
        {.command = {"tools/invoker", "call", "test.rendezvous", "--server=" + server->address(),
                     "--lease", "--executors=4", "--wait=1m"},
         .input = rendezvous.path()});
    ASSERT_TRUE(child.ok()) << child.status();
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    (*child)->Signal(SIGINT);
    EXPECT_EQ((*child)->Wait(), 128 + SIGINT) << (*child)->Errors();
  }
}

TEST_F(InvokerMapTest, TheShortestLimitIsALimitAndNotNone) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  Rendezvous rendezvous;
  const Finished finished =
      RunToEnd({.command = {"tools/invoker", "call", "test.rendezvous",
                            "--server=" + server->address(), "--lease", "--call-limit=1ns"},
                .input = rendezvous.path()});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.errors, HasSubstr("\"test.rendezvous\" ran for longer than 1us"));
}

TEST_F(InvokerMapTest, OnCtrlCWhatIsUnderWayIsFinishedAndNoMoreCalled) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  Rendezvous rendezvous;
  ASSERT_EQ(RunToEnd({{"/bin/mkdir", Path("meet")}}).exit_code, 0);
  for (const char* name : {"meet/a", "meet/b", "meet/c"}) {
    std::ofstream(Path(name)) << rendezvous.path();
  }
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(
      {.command = {"tools/invoker", "map", "test.rendezvous", "--server=" + server->address(),
                   "--lease", "--max-in-flight=1", "--inputs=" + Path("meet"),
                   "--outputs=" + Path("out")}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  (*child)->Signal(SIGINT);
  ASSERT_TRUE((*child)->AwaitErrors("interrupted: no more calls")) << (*child)->Errors();
  rendezvous.Release();
  EXPECT_EQ((*child)->Wait(), 1);
  EXPECT_THAT((*child)->Errors(),
              HasSubstr("interrupted: 3 files: 1 done, 0 failed, 2 not called"));
  EXPECT_EQ(access(Path("out/a").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace invoker
