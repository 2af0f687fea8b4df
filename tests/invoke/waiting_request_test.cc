// Requests that have arrived and wait for their turn, or whose responses do.

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"
#include "tests/transport/faults.h"

namespace invoker {
namespace {

constexpr int64_t kMinuteNs = 60'000'000'000;

class WaitingRequestTest : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, WaitingRequestTest, testing::ValuesIn(kWays), NameOfWay);

// It is the responses before it that are late.
TEST_P(WaitingRequestTest, ACallThatComesAloneIsInTimeWhileResponsesWaitForTheFabric) {
  SessionPair::Options options;
  options.executor_reactor.operations = 1;
  SessionPair pair(GetParam(), options);
  pair.CheckEcho("so that there is a connection");
  transport::EndpointFaults faults(pair.executor_reactor().endpoint().get());
  bool refuses = true;
  faults.judge = [&](const transport::EndpointFaults::Attempt&) {
    return refuses ? -FI_EAGAIN : 0;
  };
  pair.alone = true;
  // The first one has the only slot, the second one waits for it.
  std::vector<Call*> calls;
  for (uint64_t ran = 2; ran <= 3; ++ran) {
    calls.push_back(pair.StartEcho("early", 16));
    ASSERT_TRUE(pair.Until([&] { return pair.functions.calls == ran; }));
  }
  ASSERT_TRUE(pair.executor().responses().pending());
  const int64_t deadline_ns = transport::MonotonicNs() + kMinuteNs;
  calls.push_back(pair.StartEcho("in time", 16, kEcho, deadline_ns));
  EXPECT_TRUE(pair.Until(
      [&] { return pair.functions.calls == 4 || pair.executor().counters().refused > 0; }));
  EXPECT_EQ(pair.executor().counters().refused, 0u);
  refuses = false;
  for (Call* call : calls) {
    ASSERT_TRUE(pair.UntilEnded(call));
    EXPECT_EQ(call->status, absl::OkStatus());
  }
  EXPECT_EQ(pair.Text(*calls.back()), "in time");
}

// What the program merely holds does not take its time to arrive.
TEST_P(WaitingRequestTest, OnlyCallsUnderWayCountAsBytesUnderWay) {
  SessionPair pair(GetParam(), {});
  const std::string text(20'000, 't');
  Call* const kept = pair.StartEcho(text, static_cast<uint32_t>(text.size()));
  ASSERT_TRUE(pair.UntilEnded(kept));
  const HeldCells response = kept->response;
  pair.client().Finish(kept, /*keep_response_cells=*/true);
  const HeldCells buffer = pair.client().AllocateRequestCells(20'000);
  Call* const call = pair.StartEcho("under way", 16);
  const uint64_t answers = pair.client().ViewPath(UINT64_MAX).answers;
  const PathView view = pair.client().ViewPath(answers);
  EXPECT_TRUE(view.under_way);
  EXPECT_EQ(view.bytes, uint64_t{2} * pair.geometry().cell_bytes());
  ASSERT_TRUE(pair.UntilEnded(call));
  pair.client().Finish(call, false);
  pair.client().FreeRequestCells(buffer);
  pair.client().FreeResponseCells(response);
  EXPECT_TRUE(pair.AllFree());
}

using QuiesceWriteTest = WaitingRequestTest;

// Where a client that goes away writes to its window once more.
INSTANTIATE_TEST_SUITE_P(Quiet, QuiesceWriteTest, testing::ValuesIn({kWays[0], kWays[1]}),
                         NameOfWay);

TEST_P(QuiesceWriteTest, ARequestThatHasNotRunYetRunsAsItIs) {
  SessionPair pair(GetParam(), {});
  ASSERT_TRUE(pair.client_reactor().profile().close_needs_quiet);
  pair.CheckEcho("so that there is a connection");
  const std::string text(pair.geometry().MaxPayload(), 't');
  std::string input;
  pair.functions.in_echo = [&](const invoker_call& call) {
    input.assign(static_cast<const char*>(call.input), call.input_size);
  };
  ASSERT_NE(pair.StartEcho(text, 16), nullptr);
  pair.client().Flush();
  pair.client().Fail(absl::UnavailableError("the bootstrap's network is cut"));
  pair.client().PostQuiesceWrite();
  const int64_t give_up_ns = transport::MonotonicNs() + kMinuteNs;
  // The worker's fabric goes on while the worker runs another function.
  while (!pair.client_reactor().AwaitQuiesceWrite(absl::Microseconds(100))) {
    ASSERT_LT(transport::MonotonicNs(), give_up_ns);
    pair.executor_reactor().LetProviderWork();
  }
  ASSERT_EQ(pair.functions.calls, 1u);
  while (pair.functions.calls == 1 && transport::MonotonicNs() < give_up_ns) pair.PollExecutor();
  ASSERT_EQ(pair.functions.calls, 2u);
  EXPECT_TRUE(input == text) << "the last byte is " << int{input.back()};
}

}  // namespace
}  // namespace invoker
