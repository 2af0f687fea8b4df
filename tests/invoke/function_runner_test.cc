#include "src/invoke/executor/session/function_runner.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "src/invoke/wire/wire.h"
#include "tests/invoke/test_functions.h"

namespace invoker {
namespace {

constexpr uint32_t kEpoch = 7;

class FunctionRunnerTest : public testing::Test {
 protected:
  FunctionRunnerTest() : registry_(MakeTestFunctions(&functions_)) {}

  FunctionRunner Make(std::shared_ptr<const bootstrap::FunctionFilter> filter = nullptr) {
    return FunctionRunner(&registry_, std::move(filter), &watch_, kEpoch, /*reactor=*/nullptr);
  }
  int64_t Run(FunctionRunner* runner, uint16_t id, absl::string_view input, uint64_t executed = 0) {
    return runner->Run(*runner->Find(id), id,
                       {reinterpret_cast<const std::byte*>(input.data()), input.size()},
                       absl::MakeSpan(output_), &flags_, 0, executed);
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  ExecutorWatch watch_;
  std::array<std::byte, 64> output_ = {};
  std::byte flags_{0};
};

TEST_F(FunctionRunnerTest, AFunctionGetsItsInputAndLeavesItsOutput) {
  FunctionRunner runner = Make();
  ASSERT_EQ(Run(&runner, kEcho, "hello"), 5);
  EXPECT_EQ(memcmp(output_.data(), "hello", 5), 0);
}

TEST_F(FunctionRunnerTest, TheWatchShowsWhichFunctionRunsAndForWhichSession) {
  FunctionRunner runner = Make();
  ExecutorWatch::Run during;
  functions_.in_echo = [&](const invoker_call&) { during = watch_.Now(); };
  Run(&runner, kEcho, "hello", /*executed=*/3);
  EXPECT_TRUE(during.running());
  EXPECT_EQ(during.function(), kEcho);
  EXPECT_TRUE(during.Of(kEpoch));
  EXPECT_FALSE(during.Of(kEpoch + 1));
  EXPECT_FALSE(watch_.Now().running());
}

TEST_F(FunctionRunnerTest, AFunctionCanAskWhetherItsClientHasCancelledTheCall) {
  FunctionRunner runner = Make();
  int asked = -1;
  functions_.in_echo = [&](const invoker_call& call) { asked = call.services->cancelled(&call); };
  Run(&runner, kEcho, "hello");
  EXPECT_EQ(asked, 0);
  flags_ = std::byte{kCancelled};
  Run(&runner, kEcho, "hello");
  EXPECT_EQ(asked, 1);
}

TEST_F(FunctionRunnerTest, AFailureIsThereUntilItIsCleared) {
  FunctionRunner runner = Make();
  ASSERT_LT(Run(&runner, kFail, "it is broken"), 0);
  EXPECT_EQ(runner.failure().kind, CallOutcome::Kind::kFailed);
  EXPECT_FALSE(runner.error().empty());
  runner.ClearError();
  EXPECT_EQ(Run(&runner, kEcho, "hello"), 5);
}

TEST_F(FunctionRunnerTest, AFunctionThatIsNotForTheClientIsNotFound) {
  const auto filter = std::make_shared<bootstrap::FunctionFilter>(/*later_ones=*/false);
  filter->Add(true);
  filter->Add(false);
  FunctionRunner runner = Make(filter);
  EXPECT_NE(runner.Find(0), nullptr);
  EXPECT_EQ(runner.Find(1), nullptr);
  EXPECT_NE(runner.functions().Find(1), nullptr);
  EXPECT_EQ(Make().Find(static_cast<uint16_t>(registry_.size())), nullptr);
}

TEST_F(FunctionRunnerTest, OnlyAFunctionThatSaysSoIsAskedForMore) {
  FunctionEntry entry;
  entry.name = "more";
  entry.function = [](invoker_call*) -> int64_t { return 0; };
  entry.asks_for_more = [](absl::Span<const uint8_t> input) { return input.size() == 5; };
  const uint16_t id = *registry_.Add(entry);
  const FunctionRunner runner = Make();
  const auto* const payload = reinterpret_cast<const std::byte*>("hello");
  EXPECT_TRUE(runner.AsksForMore(id, payload, 5));
  EXPECT_FALSE(runner.AsksForMore(id, payload, 4));
  EXPECT_FALSE(runner.AsksForMore(kEcho, payload, 5));
  EXPECT_FALSE(runner.AsksForMore(id + 1, payload, 5));
}

}  // namespace
}  // namespace invoker
