#include "bench/harness/interleave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace invoker::bench {
namespace {

// One entry for each Begin, in order, of all contenders.
using Turns = std::vector<std::string>;

// Takes `time_ns` for each round trip, by its own account.
class Fake : public Contender {
 public:
  Fake(std::string name, int64_t time_ns, Turns* turns)
      : name_(std::move(name)), time_ns_(time_ns), turns_(turns) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override {
    if (fail_begin_) return absl::UnavailableError("no begin");
    EXPECT_EQ(open_, 0);
    ++open_;
    turns_->push_back(name_);
    return absl::OkStatus();
  }
  void End() override { --open_; }
  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    EXPECT_EQ(open_, 1);
    if (bursts_ == fail_burst_) return absl::DataLossError("it broke");
    ++bursts_;
    sizes_.push_back(times_ns.size());
    last_bytes_ = bytes;
    // What a burst returns tells which one it was.
    std::fill(times_ns.begin(), times_ns.end(), time_ns_ + bursts_);
    return absl::OkStatus();
  }

  const std::string name_;
  const int64_t time_ns_;
  Turns* const turns_;
  int open_ = 0;
  int bursts_ = 0;
  int fail_burst_ = -1;
  bool fail_begin_ = false;
  size_t last_bytes_ = 0;
  std::vector<size_t> sizes_;
};

class InterleaveTest : public testing::Test {
 protected:
  InterleavePlan Plan(int rounds) {
    InterleavePlan plan;
    plan.sizes = {64, 1024};
    plan.rounds = rounds;
    return plan;
  }

  Turns turns_;
  Fake a_{"a", 1'000, &turns_};
  Fake b_{"b", 100'000, &turns_};
  Fake c_{"c", 10'000'000, &turns_};
  std::vector<Contender*> all_ = {&a_, &b_, &c_};
};

TEST_F(InterleaveTest, AnotherOneBeginsEveryRound) {
  ASSERT_TRUE(Interleave(all_, Plan(3)).ok());
  EXPECT_EQ(turns_, (Turns{"a", "b", "c", "a", "b", "c",  // warm-up, two sizes
                           "b", "c", "a", "b", "c", "a",  //
                           "c", "a", "b", "c", "a", "b",  //
                           "a", "b", "c", "a", "b", "c"}));
  EXPECT_EQ(a_.open_ + b_.open_ + c_.open_, 0);
}

TEST_F(InterleaveTest, ResultsAreBySizeThenContenderWithOneEntryForEachRound) {
  const auto results = Interleave(all_, Plan(4));
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 6u);
  for (size_t i = 0; i < results->size(); ++i) {
    EXPECT_EQ((*results)[i].contender, all_[i % 3]);
    EXPECT_EQ((*results)[i].bytes, i < 3 ? 64u : 1024u);
    EXPECT_EQ((*results)[i].rounds.size(), 4u);
  }
}

TEST_F(InterleaveTest, TurnsAreCountedOutByHowLongARoundTripTakes) {
  InterleavePlan plan = Plan(2);
  plan.turn_ns = 20'000'000;
  const auto results = Interleave(all_, plan);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const Measured& measured : *results) {
    for (const std::vector<int64_t>& round : measured.rounds) {
      const size_t trips = round.size();
      if (measured.contender == &a_) {
        EXPECT_EQ(trips, 2000u);  // at most
      } else if (measured.contender == &b_) {
        EXPECT_NEAR(static_cast<double>(trips), 200, 2);
      } else {
        EXPECT_EQ(trips, 50u);  // at least
      }
    }
  }
}

TEST_F(InterleaveTest, WarmUpAndWhatLeadsATurnInAreThrownAway) {
  const auto results = Interleave({&a_}, Plan(1));
  ASSERT_TRUE(results.ok()) << results.status();
  // Two bursts a turn, the second counts; two sizes in the warm-up, then the first size's turn.
  ASSERT_EQ(a_.bursts_, 8);
  EXPECT_LT(a_.sizes_[4], 50u);
  const std::vector<int64_t>& kept = (*results)[0].rounds[0];
  EXPECT_EQ(std::count(kept.begin(), kept.end(), 1'000 + 6), static_cast<int64_t>(kept.size()));
  EXPECT_EQ(a_.last_bytes_, 1024u);
}

TEST_F(InterleaveTest, AFailedBurstEndsItsTurnAndSaysWhose) {
  for (int burst : {0, 1, 2, 3, 7}) {
    b_.bursts_ = 0;
    b_.fail_burst_ = burst;
    const auto results = Interleave(all_, Plan(3));
    ASSERT_FALSE(results.ok());
    EXPECT_EQ(results.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(results.status().message(), burst == 2 || burst == 3 || burst == 7
                                              ? "b, 1024 bytes: it broke"
                                              : "b, 64 bytes: it broke");
    EXPECT_EQ(a_.open_, 0);
    EXPECT_EQ(b_.open_, 0);
    EXPECT_EQ(c_.open_, 0);
  }
}

TEST_F(InterleaveTest, ATurnThatDoesNotBeginDoesNotEnd) {
  b_.fail_begin_ = true;
  const auto results = Interleave(all_, Plan(3));
  EXPECT_EQ(results.status().message(), "b, 64 bytes: no begin");
  EXPECT_EQ(b_.open_, 0);
  EXPECT_EQ(a_.open_, 0);
}

TEST_F(InterleaveTest, APlanWithoutRoundTripsIsRefused) {
  InterleavePlan plan = Plan(1);
  plan.least = 0;
  EXPECT_EQ(Interleave(all_, plan).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace invoker::bench
