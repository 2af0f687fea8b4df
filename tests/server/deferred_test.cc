// Functions that answer later, and functions that run on several threads, over real fabrics.

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "invoker/client.h"
#include "invoker/server.h"

namespace invoker {
namespace {

using ::testing::HasSubstr;

// Replies that wait, for the test to answer.
class Replies {
 public:
  void Add(Reply<std::string> reply) {
    absl::MutexLock lock(&mutex_);
    replies_.push_back(std::move(reply));
  }
  Reply<std::string> Take() {
    absl::MutexLock lock(&mutex_);
    const auto there = [this] { return !replies_.empty(); };
    mutex_.Await(absl::Condition(&there));
    Reply<std::string> reply = std::move(replies_.front());
    replies_.erase(replies_.begin());
    return reply;
  }

 private:
  absl::Mutex mutex_;
  std::vector<Reply<std::string>> replies_;
};

class DeferredTest : public testing::TestWithParam<const char*> {
 protected:
  DeferredTest() {
    ServerOptions options;
    options.provider = GetParam();
    options.peer_timeout = absl::Seconds(20);  // beside other tests
    options.window_bytes = 65536;
    server_ = std::make_unique<Server>(options);
    server_->Register("echo", [](std::string text) { return text; });
    server_->Register(
        "later", [this](Reply<std::string> reply, std::string) { replies_.Add(std::move(reply)); });
  }

  void Start() {
    const absl::Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
    client_ = Connect();
  }
  std::unique_ptr<Client> Connect() {
    auto client = Client::Connect(server_->address());
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  template <typename Signature>
  auto Find(absl::string_view name) {
    auto function = client_->Function<Signature>(name);
    EXPECT_TRUE(function.ok()) << function.status();
    return *std::move(function);
  }
  using Text = std::string(std::string);

  Replies replies_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Providers, DeferredTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return info.param[0] == 's' ? "Shm" : "Tcp";
                         });

TEST_P(DeferredTest, AnswersComeInAnyOrderAndNothingWaitsForThem) {
  Start();
  const auto later = Find<Text>("later");
  auto first = later.Start("a");
  Reply<std::string> reply = replies_.Take();
  auto second = later.Start("b");
  Reply<std::string> other = replies_.Take();
  EXPECT_EQ(Find<Text>("echo")("meanwhile").value(), "meanwhile");
  std::thread([&] { EXPECT_TRUE(other("second")); }).join();
  EXPECT_EQ(second.Get().value(), "second");
  EXPECT_FALSE(first.Wait(absl::ZeroDuration()));
  EXPECT_TRUE(reply("first"));
  EXPECT_EQ(first.Get().value(), "first");
  EXPECT_EQ(server_->CallsRun(), 3u);
}

TEST_P(DeferredTest, AReplyAnswersOnce) {
  Start();
  auto call = Find<Text>("later").Start("");
  Reply<std::string> reply = replies_.Take();
  EXPECT_TRUE(reply("once"));
  EXPECT_FALSE(reply("twice"));
  EXPECT_FALSE(reply.Fail("thrice"));
  EXPECT_EQ(call.Get().value(), "once");
}

TEST_P(DeferredTest, OfThreadsThatAnswerAtTheSameTimeOneDoes) {
  Start();
  const auto later = Find<Text>("later");
  for (int round = 0; round < 100; ++round) {
    auto call = later.Start("");
    Reply<std::string> reply = replies_.Take();
    absl::Barrier* const barrier = new absl::Barrier(2);
    bool answered = false;
    std::thread other([&] {
      if (barrier->Block()) delete barrier;
      answered = reply("other");
    });
    if (barrier->Block()) delete barrier;
    const bool failed = reply.Fail("failed");
    other.join();
    EXPECT_NE(answered, failed);
    const auto answer = call.Get();
    EXPECT_EQ(answer.ok(), answered) << answer.status();
  }
}

TEST_P(DeferredTest, ADroppedReplyAndAFailedOneFailTheCall) {
  Start();
  const auto later = Find<Text>("later");
  auto dropped = later.Start("");
  { const Reply<std::string> reply = replies_.Take(); }
  EXPECT_THAT(dropped.Get().status().message(), HasSubstr("dropped the reply"));
  auto failed = later.Start("");
  EXPECT_TRUE(replies_.Take().Fail("no such thing", -4711));
  const absl::Status status = failed.Get().status();
  EXPECT_THAT(status.message(), HasSubstr("no such thing"));
  EXPECT_THAT(status.message(), HasSubstr("-4711"));
  auto too_long = later.Start("");
  EXPECT_TRUE(replies_.Take()(std::string(50000, 'x')));
  EXPECT_TRUE(absl::IsResourceExhausted(too_long.Get().status()));
  EXPECT_EQ(Find<Text>("echo")("fine").value(), "fine");
}

TEST_P(DeferredTest, WhatThrowsOrGetsNoArgumentsFailsAtOnce) {
  server_->Register("throws", [](Reply<std::string> reply, std::string) {
    static_cast<void>(reply);
    throw std::runtime_error("not today");
  });
  Start();
  EXPECT_THAT(Find<Text>("throws")("").status().message(), HasSubstr("not today"));
  const RemoteFunction later = *client_->Function("later");
  EXPECT_THAT(client_->Invoke(later, "x").status().message(), HasSubstr("argument 1 is no str"));
}

TEST_P(DeferredTest, AFunctionThatSaysSoAndDoesNotDeferHasFailed) {
  FunctionEntry entry;
  entry.name = "lies";
  entry.function = [](invoker_call*) -> int64_t { return INVOKER_DEFERRED; };
  server_->Register(entry);
  entry.name = "answers_both";
  entry.function = [](invoker_call* call) -> int64_t {
    invoker_call* deferred = call->services->defer(call);
    deferred->services->complete(deferred, 0);
    return 0;
  };
  server_->Register(entry);
  entry.name = "defers_again";
  entry.function = [](invoker_call* call) -> int64_t {
    invoker_call* deferred = call->services->defer(call);
    deferred->services->complete(deferred, INVOKER_DEFERRED);
    return INVOKER_DEFERRED;
  };
  server_->Register(entry);
  Start();
  const auto message = [&](absl::string_view name) {
    return std::string(client_->Invoke(*client_->Function(name), "").status().message());
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(message("answers_both"), "");
    EXPECT_THAT(message("lies"), HasSubstr("has not deferred its call"));
    EXPECT_THAT(message("defers_again"), HasSubstr("returned -3, which is not a code"));
  }
}

TEST_P(DeferredTest, AFunctionLearnsThatNobodyWaits) {
  Start();
  const auto later = Find<Text>("later");
  auto call = later.Start("");
  Reply<std::string> reply = replies_.Take();
  EXPECT_FALSE(reply.cancelled());
  EXPECT_TRUE(call.Cancel());
  while (!reply.cancelled()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(reply("too late"));

  CallOptions options;
  options.timeout = absl::Seconds(2);
  auto overdue = later.With(options).Start("");
  Reply<std::string> second = replies_.Take();
  EXPECT_TRUE(second.context().remaining().has_value());
  EXPECT_TRUE(absl::IsDeadlineExceeded(overdue.Get().status()));
  while (!second.cancelled()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(second("too late"));
  EXPECT_EQ(Find<Text>("echo")("fine").value(), "fine");
}

TEST_P(DeferredTest, AClientMayGoBeforeTheAnswer) {
  Start();
  auto other = Connect();
  auto call = (*other->Function<Text>("later")).Start("");
  Reply<std::string> reply = replies_.Take();
  other->Close();
  EXPECT_TRUE(absl::IsCancelled(call.Get().status()));
  while (!reply.cancelled()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(reply("to nobody"));
  EXPECT_EQ(Find<Text>("echo")("fine").value(), "fine");
}

TEST_P(DeferredTest, StoppingWaitsForAnswersAsLongAsItMay) {
  Start();
  const auto later = Find<Text>("later");
  auto answered = later.Start("");
  Reply<std::string> reply = replies_.Take();
  auto forgotten = later.Start("");
  std::optional<Reply<std::string>> never = replies_.Take();
  std::thread thread([&] {
    // The server refuses calls once it stops.
    while (Find<Text>("echo")("").ok()) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_TRUE(reply("in time"));
  });
  server_->Stop(absl::Seconds(3));
  thread.join();
  EXPECT_EQ(answered.Get().value(), "in time");
  EXPECT_TRUE(absl::IsUnavailable(forgotten.Get().status()));
  server_.reset();
  EXPECT_TRUE((*never)("to nobody"));
}

TEST_P(DeferredTest, RoomForCallsThatWaitIsBounded) {
  Start();
  const auto later = Find<Text>("later");
  const auto few = [&](size_t calls, size_t bytes) {
    std::vector<TypedFuture<std::string, Future>> futures;
    for (size_t i = 0; i < calls; ++i) futures.push_back(later.Start(std::string(bytes, 'x')));
    for (size_t i = 0; i < calls; ++i) replies_.Take()("y");
    for (auto& future : futures) EXPECT_EQ(future.Get().value(), "y");
  };
  // Room is given back.
  for (int i = 0; i < 20; ++i) few(6, 8000);
}

TEST_P(DeferredTest, LargePayloadsWaitToo) {
  server_->Register(
      "double", [](std::string text) { return text + text; }, "", 2);
  Start();
  const std::string large(1 << 20, 'x');
  std::string room(4 << 20, '\0');
  CallOptions options;
  options.output = CallOutput(room.data(), room.size());
  const auto doubled = Find<Text>("double").With(options)(large);
  ASSERT_TRUE(doubled.ok()) << doubled.status();
  EXPECT_EQ(doubled->size(), 2 * large.size());
  auto call = Find<Text>("later").With(options).Start(large);
  Reply<std::string> reply = replies_.Take();
  EXPECT_EQ(Find<Text>("echo")("meanwhile").value(), "meanwhile");
  EXPECT_TRUE(reply(large + "!"));
  EXPECT_EQ(call.Get().value(), large + "!");
  // The window has no room for the answer that it has found.
  auto failing = Find<Text>("later").With(options).Start(large);
  EXPECT_TRUE(replies_.Take().Fail("no"));
  EXPECT_THAT(failing.Get().status().message(), HasSubstr("no"));
}

TEST_P(DeferredTest, AsManyCallsRunAtATimeAsTheFunctionAllows) {
  constexpr int kThreads = 4;
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  absl::Notification open;
  server_->Register(
      "wait",
      [&](int32_t number) {
        const int now = ++running;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        if (now == kThreads && !open.HasBeenNotified()) open.Notify();
        open.WaitForNotification();
        --running;
        return number;
      },
      "", kThreads);
  Start();
  const auto wait = Find<int32_t(int32_t)>("wait");
  std::vector<TypedFuture<int32_t, Future>> futures;
  for (int32_t i = 0; i < kThreads; ++i) futures.push_back(wait.Start(i));
  EXPECT_EQ(Find<Text>("echo")("meanwhile").value(), "meanwhile");
  for (int32_t i = 0; i < kThreads; ++i)
    EXPECT_EQ(futures[static_cast<size_t>(i)].Get().value(), i);
  futures.clear();
  CallOptions small;
  small.response_capacity = 64;
  const auto many = wait.With(small);
  for (int32_t i = 0; i < 100; ++i) futures.push_back(many.Start(i));
  for (int32_t i = 0; i < 100; ++i) EXPECT_EQ(futures[static_cast<size_t>(i)].Get().value(), i);
  EXPECT_EQ(most.load(), kThreads);
}

TEST_P(DeferredTest, ACallThatWaitsForAThreadIsNotRunForNobody) {
  std::atomic<int> runs{0};
  absl::Notification entered;
  absl::Notification open;
  server_->Register(
      "one",
      [&](bool first) {
        ++runs;
        if (first) entered.Notify();
        open.WaitForNotification();
      },
      "", 1);
  Start();
  const auto one = Find<void(bool)>("one");
  auto running = one.Start(true);
  entered.WaitForNotification();
  CallOptions options;
  options.timeout = absl::Milliseconds(100);
  auto overdue = one.With(options).Start(false);
  // One that arrives behind it shows when the deadline has passed at the worker, too.
  auto behind = Find<Text>("later").With(options).Start("");
  Reply<std::string> reply = replies_.Take();
  EXPECT_TRUE(absl::IsDeadlineExceeded(overdue.Get()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(behind.Get().status()));
  while (!reply.cancelled()) absl::SleepFor(absl::Milliseconds(1));
  open.Notify();
  EXPECT_TRUE(running.Get().ok());
  EXPECT_TRUE(one(false).ok());
  EXPECT_EQ(runs.load(), 2);
}

TEST_P(DeferredTest, AThreadOfAFunctionMayDeferToo) {
  server_->Register(
      "both", [this](Reply<std::string> reply, std::string) { replies_.Add(std::move(reply)); }, "",
      2);
  server_->Register(
      "throws", [](std::string) -> std::string { throw std::runtime_error("oh"); }, "", 2);
  Start();
  auto call = Find<Text>("both").Start("");
  EXPECT_TRUE(replies_.Take()("answer"));
  EXPECT_EQ(call.Get().value(), "answer");
  EXPECT_THAT(Find<Text>("throws")("").status().message(), HasSubstr("oh"));
}

TEST_P(DeferredTest, AConcurrencyHasALimit) {
  server_->Register(
      "many", [](std::string text) { return text; }, "", 1 << 20);
  EXPECT_THAT(server_->Start().message(), HasSubstr("has a concurrency of 1048576; at most 1024"));
}

}  // namespace
}  // namespace invoker
