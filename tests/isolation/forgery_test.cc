// Functions that are after the server's books and descriptors, or after processes and memory beyond
// their executor's: what they achieve, and that another executor goes on.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "tests/isolation/isolated_server.h"

namespace invoker {
namespace {
using testing::Contains;
using testing::HasSubstr;

// An executor with a client.
class Served {
 public:
  Served(ExecutorSpawner* spawner, const SpawnerOptions& options, const ExecutorTerms& terms = {})
      : executor_(spawner, terms) {
    if (!executor_.ok()) return;
    server_ = std::make_unique<IsolatedServer>(&executor_.process(), options);
    auto client = server_->Connect();
    EXPECT_TRUE(client.ok()) << client.status();
    if (client.ok()) client_ = *std::move(client);
  }
  ~Served() {
    if (client_ != nullptr) client_->Close();
  }

  bool ok() const { return client_ != nullptr; }
  WatchedExecutor& executor() { return executor_; }
  ExecutorProcess& process() { return executor_.process(); }
  absl::StatusOr<std::string> Call(const std::string& function, const std::string& input = "") {
    return CallOn(client_.get(), function, input);
  }
  Future Start(const std::string& function) {
    return client_->InvokeAsync(*client_->Function(function), "");
  }
  ExecutorEnd Stop() {
    executor_.process().Stop(absl::Seconds(30));
    return executor_.WaitForEnd();
  }

 private:
  WatchedExecutor executor_;
  std::unique_ptr<IsolatedServer> server_;
  std::unique_ptr<Client> client_;
};

class ForgeryTest : public testing::Test {
 protected:
  ForgeryTest() : options_(TestSpawnerOptions()) {
    auto spawner = ExecutorSpawner::Start(options_);
    EXPECT_TRUE(spawner.ok()) << spawner.status();
    if (!spawner.ok()) return;
    spawner_ = *std::move(spawner);
    other_ = std::make_unique<Served>(spawner_.get(), options_);
    EXPECT_TRUE(other_->ok());
  }
  // The other executor has not noticed.
  ~ForgeryTest() override {
    if (other_ == nullptr || !other_->ok()) return;
    EXPECT_EQ(*other_->Call("bad.echo", "still here"), "still here");
    EXPECT_FALSE(other_->executor().ended());
  }

  bool HasNote(const std::string& text) {
    const std::vector<std::string> notes = spawner_->Notes();
    return std::any_of(notes.begin(), notes.end(), [&text](const std::string& note) {
      return note.find(text) != std::string::npos;
    });
  }

  const SpawnerOptions options_;
  std::unique_ptr<ExecutorSpawner> spawner_;
  std::unique_ptr<Served> other_;
};

TEST_F(ForgeryTest, AForgedPageIsReadAndNoMore) {
  ASSERT_NE(other_, nullptr);
  for (const char* byte : {"\xff", "\x01", "/"}) {
    Served served(spawner_.get(), options_);
    ASSERT_TRUE(served.ok());
    EXPECT_EQ(*served.Call("hostile.forge", byte), "forged");
    // Whatever they are: what they are good for is UsageBook's to say.
    EXPECT_GT(served.process().Usage().bytes_out, 0u);
    EXPECT_LT(served.process().CpuTime(), absl::Hours(1));
    EXPECT_EQ(*served.Call("bad.echo", "alive"), "alive");
    // The names of fabrics were there too.
    const bootstrap::FunctionTable functions = served.process().FunctionUsage();
    EXPECT_FALSE(functions.rows().empty());
    for (const auto& [key, counts] : functions.rows()) EXPECT_EQ(key.second, kTcp);
    served.Stop();
    EXPECT_LT(served.process().CpuTime(), absl::Hours(1));
  }
}

TEST_F(ForgeryTest, AForgedPageKeepsNoExecutorBeyondItsEnd) {
  ASSERT_NE(other_, nullptr);
  ExecutorTerms terms;
  terms.call_limit = absl::Milliseconds(500);
  Served served(spawner_.get(), options_, terms);
  ASSERT_TRUE(served.ok());
  // It says now that a function runs, for ever.
  EXPECT_EQ(*served.Call("hostile.forge", "\x01"), "forged");
  EXPECT_TRUE(WaitUntilGone((served.Stop(), served.process().pid())));
}

TEST_F(ForgeryTest, ProcessorTimeThatNobodyWaitedForIsCounted) {
  ASSERT_NE(other_, nullptr);
  if (!HasNote("cgroups in /")) GTEST_SKIP() << "no groups of the kernel's here";
  Served served(spawner_.get(), options_);
  ASSERT_TRUE(served.ok());
  const absl::Duration before = served.process().CpuTime();
  ASSERT_EQ(*served.Call("hostile.compute_unseen", "300"), "computed");
  EXPECT_GE(served.process().CpuTime(), before + absl::Milliseconds(300));
  const ExecutorEnd end = served.Stop();
  EXPECT_GE(end.cpu_time, before + absl::Milliseconds(300));
  EXPECT_EQ(served.process().CpuTime(), end.cpu_time);
}

TEST_F(ForgeryTest, TheServerTakesNoDescriptors) {
  ASSERT_NE(other_, nullptr);
  Served served(spawner_.get(), options_);
  ASSERT_TRUE(served.ok());
  const size_t before = OpenDescriptors();
  Future call = served.Start("hostile.send_descriptors");
  const ExecutorEnd end = served.executor().WaitForEnd();
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
  EXPECT_THAT(end.reason, HasSubstr("what is no message, in function "
                                    "\"hostile.send_descriptors\", and was killed"));
  // None of 10,000 has come; the process's libraries may have opened some of their own.
  EXPECT_LT(OpenDescriptors(), before + 10);
}

TEST_F(ForgeryTest, WhoWritesToWhateverIsOpenEndsItself) {
  ASSERT_NE(other_, nullptr);
  Served served(spawner_.get(), options_);
  ASSERT_TRUE(served.ok());
  Future call = served.Start("hostile.write_all");
  const ExecutorEnd end = served.executor().WaitForEnd();
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
  EXPECT_THAT(end.reason, HasSubstr("in function \"hostile.write_all\", and was killed"));
}

TEST_F(ForgeryTest, ATreeOfProcessesEndsWithItsExecutor) {
  ASSERT_NE(other_, nullptr);
  const std::set<pid_t> before = Descendants();
  {
    Served served(spawner_.get(), options_);
    ASSERT_TRUE(served.ok());
    const absl::StatusOr<std::string> root = served.Call("hostile.fork_tree", "3");
    ASSERT_TRUE(root.ok()) << root.status();
    EXPECT_EQ(kill(std::stoi(*root), 0), 0);
    EXPECT_EQ(served.Stop().cause, LeaseEndCause::kReleased);
  }
  EXPECT_EQ(Descendants(), before);
}

TEST_F(ForgeryTest, ThreadsEndWithTheirExecutorAndCountAgainstItsMemory) {
  if (UnderSanitizer()) GTEST_SKIP() << "limits of memory";
  ASSERT_NE(other_, nullptr);
  ExecutorTerms terms;
  terms.memory_bytes = 128 << 20;
  Served served(spawner_.get(), options_, terms);
  ASSERT_TRUE(served.ok());
  const absl::StatusOr<std::string> threads = served.Call("hostile.threads", "100");
  ASSERT_TRUE(threads.ok()) << threads.status();
  // A stack is address space first of all.
  if (HasNote("RLIMIT_AS")) {
    EXPECT_THAT(*threads, HasSubstr("no more than"));
  }
  EXPECT_EQ(*served.Call("bad.echo", "with threads"), "with threads");
  EXPECT_EQ(served.Stop().cause, LeaseEndCause::kReleased);
}

TEST_F(ForgeryTest, FilesThatAreMappedCountAgainstTheMemory) {
  if (UnderSanitizer()) GTEST_SKIP() << "limits of memory";
  ASSERT_NE(other_, nullptr);
  ExecutorTerms terms;
  terms.memory_bytes = 64 << 20;
  Served served(spawner_.get(), options_, terms);
  ASSERT_TRUE(served.ok());
  EXPECT_EQ(*served.Call("hostile.map_shared", "8"), "taken");
  const absl::StatusOr<std::string> much = served.Call("hostile.map_shared", "256");
  if (HasNote("RLIMIT_AS")) {
    ASSERT_TRUE(much.ok()) << much.status();
    EXPECT_EQ(*much, "Cannot allocate memory");
    EXPECT_EQ(served.Stop().cause, LeaseEndCause::kReleased);
  } else {
    EXPECT_FALSE(much.ok());
    EXPECT_EQ(served.executor().WaitForEnd().cause, LeaseEndCause::kMemoryLimit);
  }
}

}  // namespace
}  // namespace invoker
