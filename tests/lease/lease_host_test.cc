// Leases of executors of their own, with executors that are no processes.

#include "src/lease/lease_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/lease/fake_spawner.h"

namespace invoker {
namespace {

using bootstrap::kPatience;
using bootstrap::SampleRequest;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a lease hears, in words.
class Heard final : public bootstrap::SessionHost::LeaseObserver {
 public:
  void OnQueued(uint32_t ahead) override { Add(absl::StrCat("queued ", ahead)); }
  void OnGranted(const absl::StatusOr<LeaseTerms>& terms) override {
    Add(terms.ok() ? absl::StrCat("granted ", terms->executors)
                   : absl::StrCat("refused ", terms.status().ToString()));
  }
  void OnEnded(const LeaseEnd& end) override {
    Add(absl::StrCat("ended ", static_cast<int>(end.cause), " ", end.reason));
  }

  // The nth, or "" if it does not come.
  std::string Line(size_t n) {
    absl::MutexLock lock(&mutex_);
    const auto there = [this, n] { return lines_.size() > n; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), kPatience) ? lines_[n] : "";
  }
  std::vector<std::string> All() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  void Add(std::string line) {
    absl::MutexLock lock(&mutex_);
    lines_.push_back(std::move(line));
  }
  absl::Mutex mutex_;
  std::vector<std::string> lines_;
};

class LeaseHostTest : public ::testing::Test {
 protected:
  LeaseHostTest()
      : book_(*UsageBook::Open({})),
        source_([this]() -> absl::StatusOr<std::unique_ptr<ExecutorSpawner>> {
          return std::make_unique<FakeSpawner>(&machine_);
        }),
        host_(Policy(), {&shared_, nullptr}, &source_, book_.get()) {}

  ~LeaseHostTest() override {
    for (uint64_t lease = 1; lease <= opened_; ++lease) host_.CloseLease(lease);
    EXPECT_EQ(machine_.Alive(), 0);
  }

  static LeasePolicy Policy() {
    LeasePolicy policy;
    policy.total = {4, 4000};
    policy.executor_memory_bytes = 1000;
    policy.max_waiting = 6;
    return policy;
  }

  // Leases are numbered from 1.
  std::shared_ptr<Heard> Open(uint32_t executors, absl::Duration wait = absl::ZeroDuration()) {
    auto heard = std::make_shared<Heard>();
    LeaseTerms terms;
    terms.executors = executors;
    terms.wait = wait;
    terms.tenant = "biology";
    host_.OpenLease(++opened_, terms, heard);
    return heard;
  }

  std::shared_ptr<FakeLife> Life(size_t n) {
    absl::MutexLock lock(&machine_.mutex);
    return machine_.lives.at(n);
  }

  uint64_t OpenSession(uint64_t lease, uint32_t executor) {
    bootstrap::OpenSessionRequest request = SampleRequest();
    request.executor = executor;
    const auto reply = host_.OpenSession(lease, request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    if (!reply.ok()) return 0;
    EXPECT_EQ(reply->executor, executor);
    EXPECT_EQ(reply->functions.size(), 1u);
    return reply->handle;
  }

  FakeMachine machine_;
  bootstrap::FakeHost shared_;
  std::unique_ptr<UsageBook> book_;
  SpawnerSource source_;
  LeaseHost host_;
  uint64_t opened_ = 0;
};

TEST_F(LeaseHostTest, WhatLeasedExecutorsHaveDroppedIsCountedAfterTheirEndToo) {
  const auto replayed = [this] {
    for (const bootstrap::DropCount& drop : host_.DroppedMessages()) {
      if (drop.reason == "replayed") return drop.count;
    }
    return ~uint64_t{0};
  };
  EXPECT_EQ(replayed(), 0u);
  const auto heard = Open(2);
  EXPECT_EQ(heard->Line(0), "granted 2");
  EXPECT_EQ(replayed(), 2 * FakeProcess::kReplayed);
  host_.CloseLease(1);
  EXPECT_EQ(replayed(), 2 * FakeProcess::kReplayed);
  const auto next = Open(1);
  EXPECT_EQ(next->Line(0), "granted 1");
  EXPECT_EQ(replayed(), 3 * FakeProcess::kReplayed);
}

TEST_F(LeaseHostTest, TheStatusHasWhatLeasedExecutorsDoAndHaveDone) {
  const auto status = [this] {
    bootstrap::WorkerStatus now;
    host_.AddStatus(&now);
    return now;
  };
  const auto calls = [](const bootstrap::WorkerStatus& now) {
    const auto& rows = now.leased.functions.rows();
    const auto row = rows.find({"fake", "fabric"});
    return row == rows.end() ? 0 : row->second.calls;
  };
  EXPECT_EQ(calls(status()), 0u);
  const auto heard = Open(3);
  EXPECT_EQ(heard->Line(0), "granted 3");
  const auto waiting = Open(2, absl::InfiniteDuration());
  EXPECT_EQ(waiting->Line(0), "queued 0");
  const bootstrap::WorkerStatus now = status();
  EXPECT_EQ(now.leases_own, 1u);
  EXPECT_EQ(now.leases_waiting, 1u);
  EXPECT_EQ(now.leased.idle, 3u);
  EXPECT_EQ(now.leased.registered_bytes, 3 * FakeProcess::kRegistered);
  EXPECT_EQ(now.leased.requests_waiting, 3 * FakeProcess::kQueued);
  EXPECT_EQ(calls(now), 3 * FakeProcess::kCalls);
  host_.CloseLease(2);
  host_.CloseLease(1);
  EXPECT_EQ(status().leases_own, 0u);
  EXPECT_EQ(status().leased.idle, 0u);
  EXPECT_EQ(calls(status()), 3 * FakeProcess::kCalls);
}

TEST_F(LeaseHostTest, ALeaseTakesCapacityUntilItIsClosedAndGetsItsBill) {
  const auto heard = Open(3);
  EXPECT_EQ(heard->Line(0), "granted 3");
  EXPECT_EQ(machine_.Alive(), 3);
  EXPECT_EQ(host_.Info().capacity.cores, 4u);
  EXPECT_EQ(host_.Info().capacity.free_cores, 1u);
  EXPECT_EQ(host_.Info().capacity.free_memory_bytes, 1000u);
  const std::vector<bootstrap::UsageRecord> records = host_.GetUsage("biology");
  ASSERT_FALSE(records.empty());
  EXPECT_TRUE(records[0].open);
  EXPECT_EQ(records[0].executors, 3u);
  EXPECT_EQ(records[0].usage.calls, 30u);
  const absl::StatusOr<ResourceUsage> usage = host_.LeaseUsage(1);
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->calls, 30u);
  EXPECT_GT(usage->lease_time, absl::ZeroDuration());
  EXPECT_TRUE(absl::IsNotFound(host_.LeaseUsage(2).status()));
  const ResourceUsage bill = host_.CloseLease(1);
  EXPECT_EQ(bill.calls, 30u);
  EXPECT_TRUE(absl::IsNotFound(host_.LeaseUsage(1).status()));
  EXPECT_EQ(bill.cpu_time, absl::Seconds(6));
  EXPECT_GT(bill.lease_time, absl::ZeroDuration());
  EXPECT_EQ(machine_.Alive(), 0);
  EXPECT_EQ(host_.Info().capacity.free_cores, 4u);
  EXPECT_THAT(heard->All(), ElementsAre("granted 3"));
}

TEST_F(LeaseHostTest, WithoutRoomARefusalSaysWhatIsFreeAndHowManyWait) {
  EXPECT_EQ(Open(3)->Line(0), "granted 3");
  const auto waits = Open(4, absl::InfiniteDuration());
  EXPECT_EQ(waits->Line(0), "queued 0");
  EXPECT_THAT(
      Open(2)->Line(0),
      AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("asks for 2 cores"),
            HasSubstr("1 core and 1000 bytes of memory are free"), HasSubstr("1 leases wait")));
  EXPECT_THAT(Open(5)->Line(0), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_EQ(host_.Info().capacity.waiting, 1u);
}

TEST_F(LeaseHostTest, ThoseWhoWaitAreServedInOrderAsRoomBecomesFree) {
  EXPECT_EQ(Open(4)->Line(0), "granted 4");               // 1
  const auto first = Open(3, absl::InfiniteDuration());   // 2
  const auto second = Open(2, absl::InfiniteDuration());  // 3
  const auto third = Open(1, absl::InfiniteDuration());   // 4
  EXPECT_EQ(third->Line(0), "queued 2");
  host_.CloseLease(1);
  EXPECT_EQ(first->Line(1), "granted 3");
  EXPECT_EQ(second->Line(1), "queued 0");
  EXPECT_EQ(third->Line(1), "queued 1");
  host_.CloseLease(2);
  EXPECT_EQ(second->Line(2), "granted 2");
  EXPECT_EQ(third->Line(2), "granted 1");
  absl::MutexLock lock(&machine_.mutex);
  EXPECT_EQ(machine_.most_alive, 4);  // nothing was given away before it was free
}

TEST_F(LeaseHostTest, TheLineHasAnEnd) {
  EXPECT_EQ(Open(4)->Line(0), "granted 4");  // 1
  std::vector<std::shared_ptr<Heard>> waiting;
  for (int i = 0; i < 6; ++i) {
    waiting.push_back(Open(1, absl::InfiniteDuration()));  // 2 to 7
    EXPECT_EQ(waiting.back()->Line(0), absl::StrCat("queued ", i));
  }
  EXPECT_THAT(Open(1, absl::InfiniteDuration())->Line(0),  // 8
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("6 leases wait already")));
  EXPECT_EQ(host_.Info().capacity.waiting, 6u);
  host_.CloseLease(8);
  EXPECT_EQ(host_.Info().capacity.waiting, 6u);
  // Who leaves makes a place.
  host_.CloseLease(2);
  EXPECT_EQ(Open(1, absl::InfiniteDuration())->Line(0), "queued 5");  // 9
  // However many of the moves each was told, what it heard last is its place.
  EXPECT_EQ(waiting.back()->Line(1), "queued 4");
}

TEST_F(LeaseHostTest, AClientThatLeavesTheLineMakesWay) {
  EXPECT_EQ(Open(3)->Line(0), "granted 3");              // 1
  const auto large = Open(4, absl::InfiniteDuration());  // 2
  const auto small = Open(1, absl::InfiniteDuration());  // 3
  EXPECT_EQ(small->Line(0), "queued 1");
  host_.CloseLease(2);
  EXPECT_EQ(small->Line(1), "granted 1");
  EXPECT_THAT(large->All(), ElementsAre("queued 0"));
}

TEST_F(LeaseHostTest, AWaitEndsWithARefusal) {
  EXPECT_EQ(Open(4)->Line(0), "granted 4");
  // Long enough for the other to get in line behind it.
  for (absl::Duration wait = absl::Milliseconds(20);; wait *= 2) {
    ASSERT_LT(wait, absl::Seconds(20)) << "nobody got in line behind it";
    const auto waits = Open(2, wait);
    const auto behind = Open(1, absl::InfiniteDuration());
    const uint64_t number_behind = opened_;
    EXPECT_EQ(waits->Line(0), "queued 0");
    EXPECT_THAT(waits->Line(1), HasSubstr("refused RESOURCE_EXHAUSTED"));
    if (behind->Line(0) == "queued 1") {
      EXPECT_EQ(behind->Line(1), "queued 0");
      break;
    }
    host_.CloseLease(number_behind);
  }
}

TEST_F(LeaseHostTest, ADeadExecutorEndsItsLeaseAndNoOther) {
  const auto doomed = Open(2);
  EXPECT_EQ(doomed->Line(0), "granted 2");
  const auto other = Open(2);
  EXPECT_EQ(other->Line(0), "granted 2");
  OpenSession(1, 0);
  Life(1)->Downgrade();
  bootstrap::WorkerStatus before;
  host_.AddStatus(&before);
  EXPECT_EQ(before.downgrades, 1u);
  EXPECT_EQ(before.leased.sessions, 1u);
  Life(1)->End({LeaseEndCause::kCrashed, "signal 11 in f", absl::ZeroDuration()});
  EXPECT_THAT(doomed->Line(1), AllOf(HasSubstr("ended "), HasSubstr("signal 11 in f")));
  bootstrap::WorkerStatus status;
  host_.AddStatus(&status);
  EXPECT_EQ(status.leases_lost, 1u);
  ASSERT_EQ(status.last_lost.size(), 1u);
  EXPECT_EQ(status.last_lost[0].lease, 1u);
  EXPECT_THAT(status.last_lost[0].reason, HasSubstr("signal 11 in f"));
  host_.CloseLease(1);
  EXPECT_EQ(machine_.Alive(), 2);
  EXPECT_THAT(doomed->All(), ::testing::SizeIs(2));
  EXPECT_THAT(other->All(), ElementsAre("granted 2"));
  OpenSession(2, 1);
}

TEST_F(LeaseHostTest, SessionsOfDifferentExecutorsHaveDifferentHandles) {
  EXPECT_EQ(Open(2)->Line(0), "granted 2");
  std::vector<std::string> closed;
  host_.set_events({[&closed](uint64_t lease, uint64_t handle, absl::string_view reason) {
                      closed.push_back(absl::StrCat(lease, " ", handle, " ", reason));
                    },
                    nullptr, nullptr});
  const uint64_t a = OpenSession(1, 0), b = OpenSession(1, 1);
  EXPECT_NE(a, b);
  EXPECT_TRUE(host_.SwitchNotification(1, b, Notification::kWriteImm, "").ok());
  // The fakes tell by it which of them they are.
  const auto number_of_b = host_.RegisterWindow(1, b, {}, true, false);
  ASSERT_TRUE(number_of_b.ok());
  const size_t process_of_b = *number_of_b - 1u;
  EXPECT_TRUE(host_.ForgetWindow(1, b, 1).ok());
  EXPECT_TRUE(host_.CloseSession(1, a).ok());
  EXPECT_EQ(host_.CloseSession(1, a).code(), absl::StatusCode::kNotFound);
  Life(1 - process_of_b)->CloseSession(1, "of nobody");
  Life(process_of_b)->CloseSession(1, "failed");
  EXPECT_EQ(host_.CloseSession(1, b).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(closed, ElementsAre(absl::StrCat("1 ", b, " failed")));
  bootstrap::OpenSessionRequest request = SampleRequest();
  request.executor = 2;
  EXPECT_EQ(host_.OpenSession(1, request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LeaseHostTest, CodeIsLoadedIntoEveryExecutorOrTheLeaseEnds) {
  const auto heard = Open(2);
  EXPECT_EQ(heard->Line(0), "granted 2");
  const auto functions = host_.Load(1, "/f.so", CodeKind::kLibrary, "f");
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_EQ(functions->size(), 2u);
  {
    absl::MutexLock lock(&machine_.mutex);
    machine_.refuse_load = {true, true};
  }
  EXPECT_EQ(host_.Load(1, "/g.so", CodeKind::kLibrary, "g").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(heard->All(), ElementsAre("granted 2"));
  {
    absl::MutexLock lock(&machine_.mutex);
    machine_.refuse_load = {false, true};
  }
  EXPECT_EQ(host_.Load(1, "/g.so", CodeKind::kLibrary, "g").status().code(),
            absl::StatusCode::kAborted);
  EXPECT_THAT(heard->Line(1), HasSubstr("cannot all load the same code: cannot be loaded"));
}

TEST_F(LeaseHostTest, CodeThatIsLoadedAtTheSameTimeGetsTheSameIdsInEveryExecutor) {
  const auto heard = Open(4);
  EXPECT_EQ(heard->Line(0), "granted 4");
  constexpr int kEach = 20;
  const auto load = [this](absl::string_view what) {
    for (int i = 0; i < kEach; ++i) {
      const std::string name = absl::StrCat(what, i);
      const auto functions = host_.Load(1, absl::StrCat("/", name), CodeKind::kLibrary, name);
      EXPECT_TRUE(functions.ok()) << functions.status();
    }
  };
  std::thread other([&load] { load("a"); });
  load("b");
  other.join();
  const auto last = host_.Load(1, "/c.so", CodeKind::kLibrary, "c");
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->size(), 2u + 2 * kEach);
  EXPECT_THAT(heard->All(), ElementsAre("granted 4"));
}

TEST_F(LeaseHostTest, AnExecutorThatCannotBeStartedRefusesTheLease) {
  {
    absl::MutexLock lock(&machine_.mutex);
    machine_.refuse_spawn = absl::InternalError("fork failed");
  }
  const auto heard = Open(2);
  EXPECT_THAT(heard->Line(0), AllOf(HasSubstr("refused INTERNAL"), HasSubstr("fork failed")));
  host_.CloseLease(1);
  EXPECT_EQ(host_.Info().capacity.free_cores, 4u);
  EXPECT_THAT(heard->All(), ::testing::SizeIs(1));
}

TEST_F(LeaseHostTest, ALeaseThatIsClosedWhileItStartsLeavesNothing) {
  {
    absl::MutexLock lock(&machine_.mutex);
    machine_.hold_spawns = true;
    machine_.late_ends = true;
  }
  const auto heard = Open(3);
  machine_.AwaitStarting(3);
  std::thread closer([this] { host_.CloseLease(1); });
  machine_.AwaitEndedStarts(3);
  {
    absl::MutexLock lock(&machine_.mutex);
    machine_.hold_spawns = false;
  }
  closer.join();
  EXPECT_TRUE(heard->All().empty());
  EXPECT_EQ(machine_.Alive(), 0);
  EXPECT_EQ(host_.Info().capacity.free_cores, 4u);
}

TEST_F(LeaseHostTest, ExecutorsThatNeverComeUpEndWithTheirLease) {
  {
    absl::MutexLock lock(&machine_.mutex);
    machine_.hold_spawns = true;
  }
  const auto heard = Open(2);
  machine_.AwaitStarting(2);
  host_.RetireLease(1);
  EXPECT_THAT(heard->Line(0), HasSubstr("refused UNAVAILABLE"));
  host_.CloseLease(1);
  EXPECT_EQ(host_.Info().capacity.free_cores, 4u);
  // And without being told before.
  const auto other = Open(2);
  machine_.AwaitStarting(2);
  host_.CloseLease(2);
  EXPECT_EQ(host_.Info().capacity.free_cores, 4u);
  EXPECT_TRUE(other->All().empty());
}

TEST_F(LeaseHostTest, RequestsThatWaitForAFunctionEndWhenTheLeaseIsRetired) {
  const auto heard = Open(2);
  EXPECT_EQ(heard->Line(0), "granted 2");
  const auto others = Open(1);
  EXPECT_EQ(others->Line(0), "granted 1");
  const uint64_t session = OpenSession(1, 0);
  {
    absl::MutexLock lock(&machine_.mutex);
    machine_.hold_requests = true;
  }
  absl::Status closed, loaded;
  std::thread closer([&] { closed = host_.CloseSession(1, session); });
  std::thread loader([&] { loaded = host_.Load(1, "/f.so", CodeKind::kLibrary, "f").status(); });
  machine_.AwaitWaiting(3);
  host_.RetireLease(1);
  closer.join();
  loader.join();
  EXPECT_EQ(closed.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(loaded.code(), absl::StatusCode::kUnavailable);
  // The rest is for CloseLease to do.
  EXPECT_EQ(host_.Info().capacity.free_cores, 1u);
  EXPECT_EQ(host_.CloseLease(1).calls, 20u);
  EXPECT_EQ(host_.Info().capacity.free_cores, 3u);
  EXPECT_EQ(machine_.Alive(), 1);
  EXPECT_THAT(heard->All(), ElementsAre("granted 2"));
  // Nobody's.
  host_.RetireLease(1);
  host_.RetireLease(99);
  EXPECT_EQ(machine_.Alive(), 1);
}

TEST_F(LeaseHostTest, ALeaseWithoutExecutorsOfItsOwnIsTheSharedHosts) {
  EXPECT_EQ(Open(0)->Line(0), "granted 0");
  const auto reply = host_.OpenSession(1, SampleRequest());
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->handle, bootstrap::SampleReply().handle);
  EXPECT_EQ(host_.CloseLease(1).calls, bootstrap::SampleUsage().calls);
  EXPECT_THAT(shared_.Calls(), ElementsAre("open 1", "close_lease 1"));
  absl::MutexLock lock(&machine_.mutex);
  EXPECT_EQ(machine_.spawned, 0);
}

TEST_F(LeaseHostTest, StopEndsExecutorsAndDrainRefusesNewLeases) {
  const auto heard = Open(2);
  EXPECT_EQ(heard->Line(0), "granted 2");
  host_.Drain();
  EXPECT_THAT(Open(1)->Line(0), HasSubstr("refused UNAVAILABLE"));
  EXPECT_EQ(machine_.Alive(), 2);
  host_.Stop(absl::Seconds(1));
  EXPECT_EQ(machine_.Alive(), 0);
  EXPECT_THAT(heard->All(), ElementsAre("granted 2"));
}

}  // namespace
}  // namespace invoker
