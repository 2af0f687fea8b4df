#include "src/bootstrap/lease/lease_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "src/transport/base/shared_files.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Remembers what it was told, in words.
class FakeStream : public LeaseStream {
 public:
  void SendDraining(absl::string_view reason) override { Add(absl::StrCat("draining ", reason)); }
  void SendClosing() override { Add("closing"); }
  void SendSessionClosed(uint64_t handle, absl::string_view reason) override {
    Add(absl::StrCat("closed ", handle, " ", reason));
  }
  void SendQueued(uint32_t ahead) override { Add(absl::StrCat("queued ", ahead)); }
  void SendGranted(const LeaseTerms& terms) override {
    Add(absl::StrCat("granted ", terms.executors));
  }
  void SendEnded(const LeaseEnd& end) override {
    Add(absl::StrCat("ended ", static_cast<int>(end.cause), " after ", end.usage.calls));
  }
  void End(const absl::Status& status) override {
    Add(absl::StrCat("end ", absl::StatusCodeToString(status.code())));
  }
  void Cancel() override { Add("cancel"); }

  std::vector<std::string> Told() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return told_;
  }
  bool WaitFor(const std::string& what) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoSeconds(kPatience), [&] {
      return std::find(told_.begin(), told_.end(), what) != told_.end();
    });
  }

 private:
  void Add(std::string what) {
    std::lock_guard<std::mutex> lock(mutex_);
    told_.push_back(std::move(what));
    changed_.notify_all();
  }
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> told_;
};

class LeaseTableTest : public ::testing::Test {
 protected:
  // Without executors of its own it is granted at once.
  std::shared_ptr<FakeStream> AddLease(LeaseTable* table, uint64_t lease, uint32_t executors = 0,
                                       absl::Duration ttl = absl::InfiniteDuration()) {
    auto stream = std::make_shared<FakeStream>();
    EXPECT_TRUE(table->Add(lease, stream).ok());
    LeaseTerms terms;
    terms.executors = executors;
    terms.ttl = ttl;
    table->Ask(lease, terms);
    return stream;
  }

  static std::string Ended(LeaseEndCause cause) {
    return absl::StrCat("ended ", static_cast<int>(cause), " after ", SampleUsage().calls);
  }

  std::vector<std::string> Closings() const {
    std::vector<std::string> closings;
    for (const std::string& call : host_.Calls()) {
      if (call.rfind("close_lease", 0) == 0) closings.push_back(call);
    }
    return closings;
  }
  FakeHost host_;
};

TEST_F(LeaseTableTest, IdsAreNeverZeroAndDiffer) {
  const absl::StatusOr<uint64_t> a = LeaseTable::DrawId();
  const absl::StatusOr<uint64_t> b = LeaseTable::DrawId();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(*a, 0u);
  EXPECT_NE(*a, *b);
}

// Its client hears of the end before the stream has ended on this side.
TEST_F(LeaseTableTest, WhoHearsThatALeaseHasEndedMayTakeAnother) {
  LeaseTable table(absl::Hours(1), &host_);
  LeaseHolder holder;
  holder.tenant = "alice";
  holder.max_leases = 1;
  const auto refused = std::make_shared<FakeStream>();
  ASSERT_TRUE(table.Add(1, refused, holder).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(table.Add(2, std::make_shared<FakeStream>(), holder)));
  table.Refuse(1, absl::PermissionDeniedError("too long"));
  ASSERT_TRUE(refused->WaitFor("end PERMISSION_DENIED"));
  const auto released = std::make_shared<FakeStream>();
  ASSERT_TRUE(table.Add(3, released, holder).ok());
  table.Ask(3, {});
  table.Release(3);
  ASSERT_TRUE(released->WaitFor("end OK"));
  EXPECT_TRUE(table.Add(4, std::make_shared<FakeStream>(), holder).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(table.Add(5, std::make_shared<FakeStream>(), holder)));
  for (const uint64_t lease : {1u, 3u, 4u}) table.StreamDone(lease);
}

TEST_F(LeaseTableTest, ALeaseThatEndsInEveryWayAtOnceIsClosedOnce) {
  LeaseTable table(absl::Hours(1), &host_);
  AddLease(&table, 7);
  table.End(7);
  table.End(7);
  table.EndAll(absl::UnavailableError("stop"));
  table.StreamDone(7);
  table.Join();
  EXPECT_THAT(Closings(), ElementsAre("close_lease 7"));
}

class CountingWatch final : public LeaseWatch {
 public:
  void OnLeaseEnded() override { ++ends; }
  std::atomic<int> ends{0};
};

TEST_F(LeaseTableTest, WhoWatchesALeaseHearsOfItsEndOnceAndBeforeItsClient) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto watch = std::make_shared<CountingWatch>();
  const auto other = std::make_shared<CountingWatch>();
  auto gone = std::make_shared<CountingWatch>();
  EXPECT_TRUE(absl::IsNotFound(table.Watch(7, watch)));
  const auto stream = AddLease(&table, 7);
  AddLease(&table, 8);
  ASSERT_TRUE(table.Watch(7, gone).ok());
  gone.reset();
  ASSERT_TRUE(table.Watch(7, watch).ok());
  ASSERT_TRUE(table.Watch(8, other).ok());
  table.Release(7);
  EXPECT_TRUE(absl::IsNotFound(table.Watch(7, other)));
  ASSERT_TRUE(stream->WaitFor(Ended(LeaseEndCause::kReleased)));
  EXPECT_EQ(watch->ends, 1);
  EXPECT_EQ(other->ends, 0);
  table.StreamDone(7);
  table.EndAll(absl::UnavailableError("stop"));
  table.StreamDone(8);
  table.Join();
  EXPECT_EQ(watch->ends, 1);
  EXPECT_EQ(other->ends, 1);
}

TEST_F(LeaseTableTest, WhatAClientsEndpointHasLeftGoesWithItsLeaseWhenTheClientIsDead) {
  LeaseTable table(absl::Hours(1), &host_);
  const pid_t client = fork();
  if (client == 0) {
    while (true) pause();
  }
  const std::string name = transport::SharedFilePrefix(client) + "left";
  const std::string path = "/dev/shm/" + name;
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0) << path;
  close(fd);
  for (const bool lives : {true, false}) {
    const uint64_t lease = lives ? 7 : 8;
    if (!lives) {
      kill(client, SIGKILL);
      waitpid(client, nullptr, 0);
    }
    const auto stream = AddLease(&table, lease);
    {
      const auto use = table.Acquire(lease);
      ASSERT_TRUE(use.ok());
      table.NoteEndpoint(*use, "fi_shm://" + name);
      table.NoteEndpoint(*use, SampleRequest().endpoint_address);
    }
    table.End(lease);
    ASSERT_TRUE(stream->WaitFor("end OK"));
    EXPECT_EQ(access(path.c_str(), F_OK) == 0, lives);
  }
}

TEST_F(LeaseTableTest, ALeaseInUseIsClosedOnlyAfterTheUse) {
  LeaseTable table(absl::Hours(1), &host_);
  AddLease(&table, 7);
  AddLease(&table, 8);
  {
    std::optional<absl::StatusOr<LeaseTable::Use>> use(table.Acquire(7));
    ASSERT_TRUE(use->ok());
    table.End(7);
    EXPECT_EQ(table.Acquire(7).status().code(), absl::StatusCode::kNotFound);
    // The other lease is closed by the same thread, so it has looked at the first one by then.
    table.End(8);
    ASSERT_TRUE(host_.WaitFor("close_lease 8"));
    EXPECT_EQ(host_.Count("close_lease 7"), 0);
  }
  EXPECT_TRUE(host_.WaitFor("close_lease 7"));
}

TEST_F(LeaseTableTest, ALeaseHasABoundedNumberOfRequestsAtATime) {
  LeaseTable table(absl::Hours(1), &host_);
  AddLease(&table, 7);
  AddLease(&table, 8);
  std::vector<LeaseTable::Use> uses;
  while (true) {
    absl::StatusOr<LeaseTable::Use> use = table.Acquire(7);
    if (!use.ok()) {
      EXPECT_EQ(use.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(std::string(use.status().message()), HasSubstr("256 requests"));
      break;
    }
    uses.push_back(*std::move(use));
    ASSERT_LE(uses.size(), size_t{LeaseTable::kMostUses});
  }
  EXPECT_EQ(uses.size(), size_t{LeaseTable::kMostUses});
  EXPECT_TRUE(table.Acquire(8).ok());
  uses.pop_back();
  EXPECT_TRUE(table.Acquire(7).ok());
}

TEST_F(LeaseTableTest, ALeaseThatEndsIsRetiredUnderItsRequestsAndClosedAfterThem) {
  LeaseTable table(absl::Hours(1), &host_);
  std::optional<absl::StatusOr<LeaseTable::Use>> use;
  // Executors do so: the request that waited for one ends with it. The table's lock is free.
  host_.in_retire = [this, &use] {
    EXPECT_THAT(Closings(), ::testing::IsEmpty());
    use.reset();
  };
  AddLease(&table, 7);
  use.emplace(table.Acquire(7));
  ASSERT_TRUE(use->ok());
  table.Release(7);
  ASSERT_TRUE(host_.WaitFor("close_lease 7"));
  table.StreamDone(7);
  table.EndAll(absl::UnavailableError("stop"));
  table.Join();
  EXPECT_FALSE(use.has_value());
  EXPECT_THAT(host_.Retired(), ElementsAre(7));
  EXPECT_THAT(Closings(), ElementsAre("close_lease 7"));
}

TEST_F(LeaseTableTest, ALeaseThatEndsByItselfUnderARequestIsRetired) {
  LeaseTable table(absl::Hours(1), &host_);
  std::optional<absl::StatusOr<LeaseTable::Use>> use;
  host_.in_retire = [&use] { use.reset(); };
  AddLease(&table, 7, 2);
  LeaseTerms terms;
  terms.executors = 2;
  host_.ObserverOf(7)->OnGranted(terms);
  use.emplace(table.Acquire(7));
  ASSERT_TRUE(use->ok());
  // One of its two executors has crashed; the other may run for ever.
  LeaseEnd end;
  end.cause = LeaseEndCause::kCrashed;
  host_.ObserverOf(7)->OnEnded(end);
  ASSERT_TRUE(host_.WaitFor("close_lease 7"));
  EXPECT_THAT(host_.Retired(), ElementsAre(7));
}

TEST_F(LeaseTableTest, WhoHasNotAskedIsNotRetired) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto stream = std::make_shared<FakeStream>();
  ASSERT_TRUE(table.Add(7, stream).ok());
  table.End(7);
  ASSERT_TRUE(stream->WaitFor("end OK"));
  EXPECT_THAT(host_.Retired(), ::testing::IsEmpty());
  EXPECT_THAT(Closings(), ::testing::IsEmpty());
}

TEST_F(LeaseTableTest, ALeaseWithoutHeartbeatsExpiresAndItsStreamIsCancelledIfItStays) {
  LeaseTable table(absl::Milliseconds(20), &host_);
  const auto stream = AddLease(&table, 7);
  ASSERT_TRUE(stream->WaitFor("cancel"));
  EXPECT_THAT(stream->Told(), ElementsAre("granted 0", Ended(LeaseEndCause::kExpired),
                                          "end DEADLINE_EXCEEDED", "cancel"));
  ASSERT_TRUE(host_.WaitFor("close_lease 7"));
  EXPECT_EQ(table.Acquire(7).status().code(), absl::StatusCode::kNotFound);
  table.Renew(7);
  table.StreamDone(7);
  EXPECT_EQ(table.Acquire(7).status().code(), absl::StatusCode::kNotFound);
}

// Happens after a stop of the process, or a machine that slept: the clock has gone on, and the
// table's thread has not been there to see it.
TEST_F(LeaseTableTest, TimeThatNobodyHasWitnessedIsNotHeldAgainstALease) {
  std::atomic<int64_t> slept_hours{0};
  LeaseTable table(absl::Hours(1), &host_, [&slept_hours] {
    return LeaseTable::Clock::now() + std::chrono::hours(slept_hours.load());
  });
  const auto stream = AddLease(&table, 7);
  for (uint64_t other = 100; other < 105; ++other) {
    // Not before the thread has looked at the lease once.
    if (other > 100) slept_hours += 3;
    // Wakes the thread, which then looks at every lease.
    const auto ended = AddLease(&table, other);
    table.Release(other);
    ASSERT_TRUE(ended->WaitFor("end OK"));
    EXPECT_TRUE(table.Acquire(7).ok());
  }
  EXPECT_THAT(stream->Told(), ElementsAre("granted 0"));
}

// The other way round: what the thread has seen pass, in however many steps, counts.
TEST_F(LeaseTableTest, TimeThatWasWitnessedInStepsIsHeldAgainstALease) {
  std::atomic<int64_t> passed_seconds{0};
  LeaseTable table(absl::Hours(1), &host_, [&passed_seconds] {
    return LeaseTable::Clock::now() + std::chrono::seconds(passed_seconds.load());
  });
  const auto stream = AddLease(&table, 7);
  for (uint64_t other = 100; table.Acquire(7).ok(); ++other) {
    ASSERT_LT(other, 1000u);
    // Less than the thread sleeps at a time.
    passed_seconds += 60;
    const auto ended = AddLease(&table, other);
    table.Release(other);
    ASSERT_TRUE(ended->WaitFor("end OK"));
    table.StreamDone(other);
  }
  ASSERT_TRUE(stream->WaitFor("end DEADLINE_EXCEEDED"));
}

TEST_F(LeaseTableTest, DrainTellsEveryLeaseOnceAndRefusesNewOnes) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto a = AddLease(&table, 1);
  const auto b = AddLease(&table, 2);
  EXPECT_TRUE(table.Admission().ok());
  table.Drain("upgrade");
  table.Drain("again");
  EXPECT_THAT(a->Told(), ElementsAre("granted 0", "draining upgrade"));
  EXPECT_THAT(b->Told(), ElementsAre("granted 0", "draining upgrade"));
  const absl::Status refused = table.Add(3, std::make_shared<FakeStream>());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("draining: upgrade"));
  EXPECT_TRUE(table.Acquire(1).ok());
}

TEST_F(LeaseTableTest, TheEndWaitsForClientsThatHaveNotHeardOfIt) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto a = AddLease(&table, 1);
  const auto b = AddLease(&table, 2);
  table.Drain("upgrade");
  absl::Notification closed;
  std::thread closes([&] {
    table.CloseToCalls(std::chrono::hours(1));
    closed.Notify();
  });
  ASSERT_TRUE(a->WaitFor("closing"));
  ASSERT_TRUE(b->WaitFor("closing"));
  table.NoteClosingSeen(1);
  EXPECT_FALSE(closed.HasBeenNotified());
  // One that has gone hears of nothing.
  table.End(2);
  closes.join();
  // Nor does one that is stopped: there is a limit.
  table.CloseToCalls(std::chrono::milliseconds(1));
}

TEST_F(LeaseTableTest, SessionClosedReachesOnlyItsOwnLiveLease) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto a = AddLease(&table, 1);
  const auto b = AddLease(&table, 2);
  table.NotifySessionClosed(1, 5, "crashed");
  table.NotifySessionClosed(3, 5, "nobody's");
  table.End(2);
  table.NotifySessionClosed(2, 6, "late");
  EXPECT_THAT(a->Told(), ElementsAre("granted 0", "closed 5 crashed"));
  EXPECT_THAT(b->Told(), Not(Contains(HasSubstr("closed 6"))));
}

TEST_F(LeaseTableTest, AReleasedLeaseHearsItsBillAfterItWasClosed) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto stream = AddLease(&table, 7);
  absl::Notification go_on;
  host_.in_close = [&go_on] { go_on.WaitForNotification(); };
  table.Release(7);
  EXPECT_EQ(table.Acquire(7).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(stream->Told(), ElementsAre("granted 0"));
  go_on.Notify();
  ASSERT_TRUE(stream->WaitFor("end OK"));
  EXPECT_THAT(stream->Told(), ElementsAre("granted 0", Ended(LeaseEndCause::kReleased), "end OK"));
  EXPECT_THAT(Closings(), ElementsAre("close_lease 7"));
}

TEST_F(LeaseTableTest, ALeaseEndsWhenItsTimeIsOverHoweverItsClientBehaves) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto stream = AddLease(&table, 7, 0, absl::Milliseconds(20));
  table.Renew(7);
  ASSERT_TRUE(stream->WaitFor("end DEADLINE_EXCEEDED"));
  EXPECT_THAT(stream->Told(),
              ElementsAre("granted 0", Ended(LeaseEndCause::kTtl), "end DEADLINE_EXCEEDED"));
}

TEST_F(LeaseTableTest, ALeaseThatWaitsNeedsNoHeartbeats) {
  LeaseTable table(absl::Milliseconds(20), &host_);
  const auto waiting = AddLease(&table, 7, 2);
  const auto other = AddLease(&table, 8);
  // The other one, which asked later, has expired meanwhile.
  ASSERT_TRUE(other->WaitFor("end DEADLINE_EXCEEDED"));
  host_.ObserverOf(7)->OnQueued(1);
  EXPECT_EQ(table.Acquire(7).status().code(), absl::StatusCode::kNotFound);
  LeaseTerms terms;
  terms.executors = 2;
  host_.ObserverOf(7)->OnGranted(terms);
  ASSERT_TRUE(waiting->WaitFor("cancel"));
  EXPECT_THAT(waiting->Told(), ElementsAre("queued 1", "granted 2", Ended(LeaseEndCause::kExpired),
                                           "end DEADLINE_EXCEEDED", "cancel"));
}

TEST_F(LeaseTableTest, ARefusalIsAStatusAndTheHostForgetsTheLease) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto stream = AddLease(&table, 7, 2);
  host_.ObserverOf(7)->OnGranted(absl::ResourceExhaustedError("no room"));
  ASSERT_TRUE(stream->WaitFor("end RESOURCE_EXHAUSTED"));
  EXPECT_THAT(stream->Told(), ElementsAre("end RESOURCE_EXHAUSTED"));
  EXPECT_THAT(Closings(), ElementsAre("close_lease 7"));
}

TEST_F(LeaseTableTest, ADeadExecutorEndsItsLeaseAsAborted) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto stream = AddLease(&table, 7, 2);
  const auto other = AddLease(&table, 8);
  LeaseTerms terms;
  terms.executors = 2;
  host_.ObserverOf(7)->OnGranted(terms);
  LeaseEnd end;
  end.cause = LeaseEndCause::kCrashed;
  end.reason = "signal 11";
  host_.ObserverOf(7)->OnEnded(end);
  ASSERT_TRUE(stream->WaitFor("end ABORTED"));
  EXPECT_THAT(stream->Told(),
              ElementsAre("granted 2", Ended(LeaseEndCause::kCrashed), "end ABORTED"));
  EXPECT_TRUE(table.Acquire(8).ok());
  EXPECT_THAT(other->Told(), ElementsAre("granted 0"));
}

TEST_F(LeaseTableTest, DrainEndsLeasesThatWait) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto stream = AddLease(&table, 7, 2);
  table.Drain("upgrade");
  ASSERT_TRUE(stream->WaitFor("end UNAVAILABLE"));
  EXPECT_THAT(stream->Told(), ElementsAre("end UNAVAILABLE"));
}

TEST_F(LeaseTableTest, ALeaseThatIsSlowToCloseHoldsUpNoOther) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto slow = AddLease(&table, 1);
  const auto quick = AddLease(&table, 2);
  absl::Notification go_on;
  std::atomic<int> closings{0};
  host_.in_close = [&] {
    if (closings.fetch_add(1) == 0) go_on.WaitForNotification();
  };
  table.End(1);
  while (closings.load() == 0) std::this_thread::yield();
  table.End(2);
  EXPECT_TRUE(quick->WaitFor("end OK"));
  EXPECT_THAT(slow->Told(), ElementsAre("granted 0"));
  go_on.Notify();
  EXPECT_TRUE(slow->WaitFor("end OK"));
}

TEST_F(LeaseTableTest, AnIdIsGrantedToOneLeaseOnly) {
  LeaseTable table(absl::Hours(1), &host_);
  AddLease(&table, 1);
  EXPECT_EQ(table.Add(1, std::make_shared<FakeStream>()).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace invoker::bootstrap
