// Calls that are answered later, without sessions: what they copy, to whom they are delivered, and
// what the watch shows of them.

#include "src/invoke/executor/deferred/deferred_call_set.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/invoke/executor/deferred/concurrent_function.h"

namespace invoker {
namespace {

class Owner : public DeferredOwner {
 public:
  void Finish(DeferredCall* call) override {
    finished.push_back(call->has_run() ? call->returned()
                                       : -1000 - static_cast<int>(call->refusal()));
  }
  std::vector<int64_t> finished;
};

class DeferredCallSetTest : public testing::Test {
 protected:
  DeferredCallSetTest()
      : calls_(std::make_shared<DeferredCallSet>(&watch_, [this](std::function<void()> task) {
          absl::MutexLock lock(&mutex_);
          if (ended_) return false;
          tasks_.push_back(std::move(task));
          return true;
        })) {}

  std::shared_ptr<DeferredCall> Defer(const std::string& input, uint16_t function,
                                      int64_t deadline_ns = 0) {
    invoker_call call = {};
    call.struct_size = sizeof(call);
    call.input = input.data();
    call.input_size = input.size();
    call.output_capacity = 16;
    // The function that defers it runs meanwhile.
    watch_.Begin(ExecutorWatch::SessionOf(1), function, /*executed=*/0);
    std::shared_ptr<DeferredCall> deferred =
        DeferredCall::Make(calls_, call, {"tenant", "id", 1, deadline_ns, nullptr});
    watch_.End();
    deferred->Place(RequestHeader(), nullptr, owner_);
    return deferred;
  }
  // The executor's turn.
  void RunTasks() {
    std::vector<std::function<void()>> tasks;
    {
      absl::MutexLock lock(&mutex_);
      tasks.swap(tasks_);
    }
    for (const std::function<void()>& task : tasks) task();
  }

  ExecutorWatch watch_;
  absl::Mutex mutex_;
  bool ended_ = false;
  std::vector<std::function<void()>> tasks_;
  const std::shared_ptr<Owner> owner_ = std::make_shared<Owner>();
  const std::shared_ptr<DeferredCallSet> calls_;
};

TEST_F(DeferredCallSetTest, ACallHasMemoryOfItsOwn) {
  std::string input = "input";
  const std::shared_ptr<DeferredCall> deferred = Defer(input, 1);
  input = "other";
  const invoker_call* call = deferred->call();
  EXPECT_EQ(std::string(static_cast<const char*>(call->input), call->input_size), "input");
  EXPECT_EQ(call->output_capacity, 16u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(call->input) % INVOKER_BUFFER_ALIGNMENT, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(call->output) % INVOKER_BUFFER_ALIGNMENT, 0u);
  invoker_call_facts facts = {};
  call->services->describe(call, &facts);
  EXPECT_STREQ(facts.tenant, "tenant");
  EXPECT_STREQ(facts.call_id, "id");
  EXPECT_EQ(facts.remaining_ns, INVOKER_NO_DEADLINE);
  EXPECT_EQ(call->services->cancelled(call), 0);
  deferred->Cancel();
  EXPECT_EQ(call->services->cancelled(call), 1);
  EXPECT_EQ(call->services->defer(deferred->call()), call);
  deferred->Complete(0);
}

TEST_F(DeferredCallSetTest, AnAnswerIsDeliveredOnTheExecutorsThread) {
  std::shared_ptr<DeferredCall> deferred = Defer("", 1);
  EXPECT_TRUE(calls_->any());
  std::thread([&] { deferred->Complete(7); }).join();
  deferred.reset();
  EXPECT_TRUE(owner_->finished.empty());
  RunTasks();
  EXPECT_EQ(owner_->finished, std::vector<int64_t>{7});
  EXPECT_FALSE(calls_->any());
  calls_->AwaitNone(absl::InfiniteFuture());
}

TEST_F(DeferredCallSetTest, NobodyGetsAnswersToSessionsOrExecutorsThatHaveGone) {
  const std::shared_ptr<DeferredCall> unowned = Defer("", 1);
  unowned->Place(RequestHeader(), nullptr, std::make_shared<Owner>());
  unowned->Complete(1);
  RunTasks();
  const std::shared_ptr<DeferredCall> late = Defer("", 1);
  const std::shared_ptr<DeferredCall> later = Defer("", 1);
  ended_ = true;
  late->Complete(2);
  calls_->Close();
  later->Complete(3);
  RunTasks();
  EXPECT_TRUE(owner_->finished.empty());
}

TEST_F(DeferredCallSetTest, TheWatchShowsTheCallThatHasRunLongest) {
  const std::shared_ptr<DeferredCall> first = Defer("", 1);
  const std::shared_ptr<DeferredCall> second = Defer("", 2);
  EXPECT_FALSE(watch_.Longest().running());
  second->Begin(/*on_own_thread=*/false);
  first->Begin(/*on_own_thread=*/true);
  EXPECT_EQ(watch_.Longest().function(), 2);
  EXPECT_FALSE(watch_.Now().running());
  second->Complete(0);
  EXPECT_EQ(watch_.Longest().function(), 1);
  first->Complete(0);
  EXPECT_FALSE(watch_.Longest().running());
  EXPECT_EQ(second->run_ticks(), 0u);
  EXPECT_GT(first->run_ticks(), 0u);
  // One that has been answered before it was said to run.
  second->Begin(false);
  EXPECT_FALSE(watch_.Longest().running());
}

TEST_F(DeferredCallSetTest, AConcurrentFunctionRefusesWhatItNeedNotRun) {
  std::atomic<bool> draining{false};
  absl::Notification entered;
  absl::Notification open;
  absl::Notification again;
  std::atomic<int> runs{0};
  const auto run = [&] {
    if (++runs == 1) {
      entered.Notify();
      open.WaitForNotification();
    } else {
      again.Notify();
    }
  };
  std::function<void()> context = run;
  FunctionEntry entry;
  entry.name = "f";
  entry.concurrency = 1;
  entry.context = &context;
  entry.function = [](invoker_call* call) -> int64_t {
    (*static_cast<std::function<void()>*>(call->context))();
    return 5;
  };
  ConcurrentFunction function(entry, &draining);
  const FunctionEntry wrapped = function.Entry();
  std::vector<std::shared_ptr<DeferredCall>> all;
  const auto call = [&](int64_t deadline_ns, bool cancelled) {
    all.push_back(Defer("", 1, deadline_ns));
    if (cancelled) all.back()->Cancel();
    invoker_call* deferred = all.back()->call();
    deferred->context = wrapped.context;
    // It has been deferred already, so it defers itself.
    EXPECT_EQ(wrapped.function(deferred), INVOKER_DEFERRED);
  };
  call(0, false);
  entered.WaitForNotification();
  call(1, false);  // long past
  call(0, true);
  call(0, false);
  open.Notify();
  again.WaitForNotification();
  draining = true;
  call(0, false);
  function.Stop();
  RunTasks();
  // The last one is refused while the one before it is about to return.
  EXPECT_THAT(owner_->finished, testing::UnorderedElementsAre(
                                    5, -1000 - static_cast<int>(StatusCode::kDeadlineExpired),
                                    -1000 - static_cast<int>(StatusCode::kCancelled), 5,
                                    -1000 - static_cast<int>(StatusCode::kDraining)));
}

}  // namespace
}  // namespace invoker
