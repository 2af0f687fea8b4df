#include "src/bootstrap/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Remembers what it was told, in words.
class FakeStream : public LeaseStream {
 public:
  void SendDraining(absl::string_view reason) override { Add(absl::StrCat("draining ", reason)); }
  void SendSessionClosed(uint64_t handle, absl::string_view reason) override {
    Add(absl::StrCat("closed ", handle, " ", reason));
  }
  void SendExpired(absl::string_view) override { Add("expired"); }
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
  std::shared_ptr<FakeStream> AddLease(LeaseTable* table, uint64_t lease) {
    auto stream = std::make_shared<FakeStream>();
    EXPECT_TRUE(table->Add(lease, stream).ok());
    return stream;
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

TEST_F(LeaseTableTest, ALeaseThatEndsInEveryWayAtOnceIsClosedOnce) {
  LeaseTable table(absl::Hours(1), &host_);
  AddLease(&table, 7);
  table.End(7);
  table.End(7);
  table.EndAll(absl::UnavailableError("stop"));
  table.StreamDone(7);
  table.Join();
  EXPECT_THAT(host_.Calls(), ElementsAre("close_lease 7"));
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

TEST_F(LeaseTableTest, ALeaseWithoutHeartbeatsExpiresAndItsStreamIsCancelledIfItStays) {
  LeaseTable table(absl::Milliseconds(20), &host_);
  const auto stream = AddLease(&table, 7);
  ASSERT_TRUE(stream->WaitFor("cancel"));
  EXPECT_THAT(stream->Told(), ElementsAre("expired", "end DEADLINE_EXCEEDED", "cancel"));
  ASSERT_TRUE(host_.WaitFor("close_lease 7"));
  EXPECT_EQ(table.Acquire(7).status().code(), absl::StatusCode::kNotFound);
  table.Renew(7);
  table.StreamDone(7);
  EXPECT_EQ(table.Acquire(7).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LeaseTableTest, DrainTellsEveryLeaseOnceAndRefusesNewOnes) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto a = AddLease(&table, 1);
  const auto b = AddLease(&table, 2);
  EXPECT_TRUE(table.Admission().ok());
  table.Drain("upgrade");
  table.Drain("again");
  EXPECT_THAT(a->Told(), ElementsAre("draining upgrade"));
  EXPECT_THAT(b->Told(), ElementsAre("draining upgrade"));
  const absl::Status refused = table.Add(3, std::make_shared<FakeStream>());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("draining: upgrade"));
  EXPECT_TRUE(table.Acquire(1).ok());
}

TEST_F(LeaseTableTest, SessionClosedReachesOnlyItsOwnLiveLease) {
  LeaseTable table(absl::Hours(1), &host_);
  const auto a = AddLease(&table, 1);
  const auto b = AddLease(&table, 2);
  table.NotifySessionClosed(1, 5, "crashed");
  table.NotifySessionClosed(3, 5, "nobody's");
  table.End(2);
  table.NotifySessionClosed(2, 6, "late");
  EXPECT_THAT(a->Told(), ElementsAre("closed 5 crashed"));
  EXPECT_THAT(b->Told(), IsEmpty());
}

TEST_F(LeaseTableTest, AnIdIsGrantedToOneLeaseOnly) {
  LeaseTable table(absl::Hours(1), &host_);
  AddLease(&table, 1);
  EXPECT_EQ(table.Add(1, std::make_shared<FakeStream>()).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace invoker::bootstrap
