// What a session counts of each function, where others read it.

#include "src/invoke/executor/function_meters.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/invoke/executor/session/session_usage.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {
namespace {

using bootstrap::FunctionCounts;

class FunctionMetersTest : public testing::Test {
 protected:
  void SetUp() override {
    auto memory = transport::HostBuffer::Allocate(sizeof(FunctionMeters));
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    meters_ = reinterpret_cast<FunctionMeters*>(memory_.data());
    meters_->SetProvider(0, "first");
    meters_->SetProvider(1, "second");
    while (scale_.ToNs(1'000'000'000) == 0) scale_.Refine(ReadTicks());
  }
  // A session's on a fabric.
  SessionUsage Usage(size_t fabric) {
    return SessionUsage(nullptr, nullptr, meters_->OfFabric(fabric), &scale_);
  }
  uint64_t Ticks(uint64_t ns) const {
    return static_cast<uint64_t>(static_cast<double>(ns) * 1e9 /
                                 static_cast<double>(scale_.ToNs(1'000'000'000)));
  }
  std::map<std::pair<std::string, uint16_t>, FunctionCounts> Read() const {
    std::map<std::pair<std::string, uint16_t>, FunctionCounts> all;
    meters_->ForEach(meters_->Providers(), [&all](const std::string& provider, uint16_t id,
                                                  const FunctionCounts& counts) {
      all[{provider, id}] = counts;
    });
    return all;
  }

  transport::HostBuffer memory_;
  FunctionMeters* meters_ = nullptr;
  TickScale scale_;
};

TEST_F(FunctionMetersTest, EachFunctionOnEachFabricHasItsOwn) {
  SessionUsage first = Usage(0);
  SessionUsage second = Usage(1);
  first.CountRun(3, 10);
  first.CountOutput(3, 7);
  first.CountRun(3, 10);
  first.CountFailure(3);
  second.CountRun(4, 1);
  const auto all = Read();
  ASSERT_EQ(all.size(), 2u);
  const FunctionCounts& counts = all.at({"first", 3});
  EXPECT_EQ(counts.calls, 2u);
  EXPECT_EQ(counts.failures, 1u);
  EXPECT_EQ(counts.bytes_in, 20u);
  EXPECT_EQ(counts.bytes_out, 7u);
  EXPECT_EQ(all.at({"second", 4}).calls, 1u);
}

TEST_F(FunctionMetersTest, ARunThatIsTakenBackDoesNotCount) {
  SessionUsage usage = Usage(0);
  usage.CountRun(0, 10);
  usage.CountRun(0, 5);
  usage.TakeBackRun(0, 5);
  EXPECT_EQ(Read().at({"first", 0}).calls, 1u);
  EXPECT_EQ(Read().at({"first", 0}).bytes_in, 10u);
}

TEST_F(FunctionMetersTest, ARunWithoutAReadingGetsTheTimeThatIsLeft) {
  SessionUsage usage = Usage(0);
  usage.CountRun(0, 0);
  usage.CountUntimedOf(0);
  usage.CountTime(usage.CountCall(1, 0, 0), 40'000);
  usage.CountBusy(Ticks(100'000));
  EXPECT_EQ(Read().at({"first", 1}).time.sum_ns, 40'000u);
  EXPECT_NEAR(static_cast<double>(Read().at({"first", 0}).time.sum_ns), 60'000, 100);
  EXPECT_EQ(Read().at({"first", 0}).time.total(), 1u);
  // The next turn begins anew.
  usage.CountUntimedOf(1);
  usage.CountBusy(Ticks(50'000));
  EXPECT_NEAR(static_cast<double>(Read().at({"first", 1}).time.sum_ns), 90'000, 100);
}

TEST_F(FunctionMetersTest, RunsWithoutAReadingShareTheirTime) {
  SessionUsage usage = Usage(0);
  for (int i = 0; i < 4; ++i) {
    usage.CountRun(0, 0);
    usage.CountUntimedOf(0);
  }
  usage.CountBusy(Ticks(8'000));
  const LatencyHistogram time = Read().at({"first", 0}).time;
  EXPECT_EQ(time.counts[LatencyBuckets::Of(2'000)], 4u);
}

TEST_F(FunctionMetersTest, TimeOfCallsThatAreAnsweredLaterIsNotPartOfTheTurn) {
  SessionUsage usage = Usage(0);
  usage.CountRun(0, 0);
  usage.CountUntimedOf(0);
  usage.CountRun(1, 0);
  usage.CountDeferred(1, Ticks(1'000'000));
  usage.CountBusy(Ticks(3'000));
  EXPECT_NEAR(static_cast<double>(Read().at({"first", 0}).time.sum_ns), 3'000, 10);
  EXPECT_EQ(Read().at({"first", 1}).time.counts[LatencyBuckets::Of(1'000'000)], 1u);
}

TEST_F(FunctionMetersTest, FunctionsAndFabricsBeyondTheLastShareItsPlace) {
  meters_->SetProvider(2, std::string(100, 'n'));
  for (size_t fabric = 3; fabric < FunctionMeters::kFabrics + 2; ++fabric) {
    meters_->SetProvider(fabric, "other");
  }
  SessionUsage usage = Usage(FunctionMeters::kFabrics + 1);
  usage.CountRun(FunctionMeters::kFunctions - 1, 1);
  usage.CountRun(UINT16_MAX, 1);
  const auto all = Read();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.at({"other", FunctionMeters::kFunctions - 1}).calls, 2u);
  Usage(2).CountRun(0, 1);
  EXPECT_EQ(Read().begin()->first.first.substr(0, 5), "nnnnn");
}

TEST_F(FunctionMetersTest, ASessionWithoutMetersCountsForItself) {
  SessionUsage usage(nullptr, nullptr);
  usage.CountRun(0, 10);
  usage.CountTime(usage.CountCall(0, 0, 0), 1);
  usage.CountUntimedOf(0);
  usage.CountBusy(100);
  EXPECT_EQ(usage.counters().executed, 2u);
}

}  // namespace
}  // namespace invoker
