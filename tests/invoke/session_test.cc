// One session's two halves: placement, wraps, coalescing, late responses.

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"
#include "tests/transport/faults.h"

namespace invoker {
namespace {

class SessionTest : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, SessionTest, testing::ValuesIn(kWays), NameOfWay);

TEST_P(SessionTest, CallsGoOnWhenTheSequenceAndTheEpochWrap) {
  SessionPair::Options options;
  options.first_sequence = uint64_t{0} - 40;
  options.epoch = 0xffffffff;
  options.number = 0xffff;
  SessionPair pair(GetParam(), options);
  for (int i = 0; i < 300; ++i) pair.CheckEcho("call " + std::to_string(i));
  EXPECT_EQ(pair.functions.calls, 300u);
  EXPECT_EQ(TotalDrops(pair.executor().counters().dropped), 0u);
  EXPECT_TRUE(pair.AllFree());
}

TEST_P(SessionTest, ManyCallsUnderWayCrossTheWrapOfTheSequence) {
  SessionPair::Options options;
  options.first_sequence = uint64_t{0} - 40;
  SessionPair pair(GetParam(), options);
  for (int round = 0; round < 5; ++round) {
    std::vector<Call*> calls;
    for (int i = 0; i < 64; ++i) {
      calls.push_back(pair.StartEcho("call " + std::to_string(i), 16));
      ASSERT_NE(calls.back(), nullptr);
    }
    pair.client().Flush();
    for (int i = 0; i < 64; ++i) {
      ASSERT_TRUE(pair.UntilEnded(calls[i]));
      ASSERT_TRUE(calls[i]->status.ok()) << calls[i]->status;
      EXPECT_EQ(pair.Text(*calls[i]), "call " + std::to_string(i));
      pair.client().Finish(calls[i], false);
    }
  }
  EXPECT_TRUE(pair.AllFree());
}

// 64 cells: runs end at the last one and begin again at the first all the time.
TEST_P(SessionTest, ThousandsOfCallsOfMixedSizesShareASmallWindow) {
  SessionPair::Options options;
  options.window_bytes = 4096;
  SessionPair pair(GetParam(), options);
  std::mt19937 random(1);
  std::deque<std::pair<Call*, std::string>> under_way;
  bool reached_the_end = false;
  for (int started = 0; started < 4000;) {
    std::string text(random() % 8 == 0 ? random() % 4065 : random() % 200, '\0');
    for (char& c : text) c = static_cast<char>(random());
    Call* call = pair.StartEcho(text, static_cast<uint32_t>(text.size()));
    if (call != nullptr) {
      ++started;
      reached_the_end |= call->response.first + call->response.cells == pair.geometry().cells();
      under_way.emplace_back(call, std::move(text));
      continue;
    }
    // Full. Ended in any order, so that what is free is in pieces.
    pair.client().Flush();
    ASSERT_FALSE(under_way.empty());
    const size_t index = random() % under_way.size();
    ASSERT_TRUE(pair.UntilEnded(under_way[index].first));
    ASSERT_TRUE(under_way[index].first->status.ok()) << under_way[index].first->status;
    ASSERT_EQ(pair.Text(*under_way[index].first), under_way[index].second);
    pair.client().Finish(under_way[index].first, false);
    under_way.erase(under_way.begin() + index);
  }
  pair.client().Flush();
  for (auto& [call, text] : under_way) {
    ASSERT_TRUE(pair.UntilEnded(call));
    EXPECT_EQ(pair.Text(*call), text);
    pair.client().Finish(call, false);
  }
  EXPECT_TRUE(reached_the_end);
  EXPECT_TRUE(pair.AllFree());
  EXPECT_EQ(TotalDrops(pair.client().dropped()), 0u);
}

// A client that asks is told that the path is well: nothing has been lost on it.
TEST_P(SessionTest, AResponseThatTheFabricRefusesIsInHandUntilItHasLeft) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("so that there is a connection");
  transport::EndpointFaults faults(pair.executor_reactor().endpoint().get());
  bool refuses = true;
  faults.judge = [&](const transport::EndpointFaults::Attempt&) {
    return refuses ? -FI_EAGAIN : 0;
  };
  const std::string text(1000, 't');
  Call* const call = pair.StartEcho(text, static_cast<uint32_t>(text.size()));
  const uint64_t sequence = call->sequence;
  ASSERT_TRUE(pair.Until([&] { return pair.functions.calls == 2; }));
  for (int turn = 0; turn < 1000; ++turn) {
    pair.PollClient();
    pair.PollExecutor();
    ASSERT_EQ(pair.executor().FindRequest(sequence), bootstrap::RequestState::kInHand) << turn;
  }
  EXPECT_FALSE(call->ended());
  refuses = false;
  ASSERT_TRUE(pair.UntilEnded(call));
  EXPECT_EQ(call->status, absl::OkStatus());
  EXPECT_EQ(pair.Text(*call), text);
  EXPECT_TRUE(pair.Until(
      [&] { return pair.executor().FindRequest(sequence) == bootstrap::RequestState::kAnswered; }));
  pair.client().Finish(call, false);
}

TEST_P(SessionTest, AdjacentRequestsOfOneTurnLeaveInOneWriteAndSoDoTheirResponses) {
  SessionPair pair(GetParam(), {});
  // Probes run no function, so no function is slow and their responses wait for each other.
  std::vector<Call*> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(pair.StartProbe("small"));
  pair.client().Flush();
  for (Call* call : calls) {
    ASSERT_TRUE(pair.UntilEnded(call));
    EXPECT_TRUE(call->status.ok()) << call->status;
    EXPECT_EQ(pair.Text(*call), "small");
    pair.client().Finish(call, false);
  }
  EXPECT_EQ(pair.client().requests().messages(), 10u);
  EXPECT_EQ(pair.client().requests().writes(), 1u);
  EXPECT_EQ(pair.tokens, 1u);
  EXPECT_EQ(pair.executor().responses().messages(), 10u);
  EXPECT_EQ(pair.executor().responses().writes(), 1u);
}

TEST_P(SessionTest, RequestsThatAreNotAdjacentLeaveInWritesOfTheirOwn) {
  SessionPair pair(GetParam(), {});
  const HeldCells first = pair.client().AllocateRequestCells(8);
  Call* a = pair.StartEcho("a", 16);
  const HeldCells between = pair.client().AllocateRequestCells(8);
  Call* b = pair.StartEcho("b", 16);
  pair.client().Flush();
  ASSERT_TRUE(pair.UntilEnded(a));
  ASSERT_TRUE(pair.UntilEnded(b));
  EXPECT_EQ(pair.Text(*a), "a");
  EXPECT_EQ(pair.Text(*b), "b");
  EXPECT_EQ(pair.client().requests().writes(), 2u);
  pair.client().Finish(a, false);
  pair.client().Finish(b, false);
  pair.client().FreeRequestCells(first);
  pair.client().FreeRequestCells(between);
  EXPECT_TRUE(pair.AllFree());
}

// Probes and calls ring different doorbells.
TEST_P(SessionTest, AProbeAndACallSideBySideAreTwoWrites) {
  SessionPair pair(GetParam(), {});
  const std::string nonce = "0123456789abcdef";
  Call* a = pair.StartProbe(nonce);
  Call* b = pair.StartEcho("call", 16);
  pair.client().Flush();
  ASSERT_TRUE(pair.UntilEnded(a));
  ASSERT_TRUE(pair.UntilEnded(b));
  EXPECT_EQ(pair.Text(*a), nonce);
  EXPECT_EQ(pair.Text(*b), "call");
  EXPECT_EQ(pair.client().requests().writes(), 2u);
}

// More runs than the reactor has operations: none is lost, and they leave in order.
TEST_P(SessionTest, RunsThatFindNoOperationWaitForOne) {
  SessionPair::Options options;
  options.client_reactor.operations = 2;
  SessionPair pair(GetParam(), options);
  for (int round = 0; round < 3; ++round) {
    std::vector<HeldCells> gaps;
    std::vector<Call*> calls;
    for (int i = 0; i < 100; ++i) {
      calls.push_back(pair.StartEcho(std::to_string(i), 16));
      ASSERT_NE(calls.back(), nullptr);
      gaps.push_back(pair.client().AllocateRequestCells(1));
    }
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(pair.UntilEnded(calls[i]));
      EXPECT_EQ(pair.Text(*calls[i]), std::to_string(i));
      pair.client().Finish(calls[i], false);
      pair.client().FreeRequestCells(gaps[i]);
    }
  }
  EXPECT_EQ(pair.client().requests().writes(), 300u);
  EXPECT_TRUE(pair.AllFree());
}

TEST_P(SessionTest, CellsOfATimedOutCallAreNotReusedUntilItsResponseHasCome) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("the fabric is connected");
  const uint32_t requests_before = pair.client().free_request_cells();
  const uint32_t responses_before = pair.client().free_response_cells();
  Call* call = pair.StartEcho("late", 64, kEcho, transport::MonotonicNs() + 1'000'000);
  pair.client().Flush();
  const HeldCells request = call->request;
  const HeldCells response = call->response;
  // The executor does nothing meanwhile.
  while (!call->ended()) pair.PollClient();
  EXPECT_TRUE(absl::IsDeadlineExceeded(call->status));
  EXPECT_EQ(GetCallFate(call->status), CallFate::kMaybeExecuted);
  pair.client().Finish(call, false);
  EXPECT_EQ(pair.client().free_request_cells(), requests_before - request.cells);
  EXPECT_EQ(pair.client().free_response_cells(), responses_before - response.cells);
  // Calls made meanwhile are placed elsewhere.
  Call* other = pair.StartEcho("other", 64);
  EXPECT_NE(other->request.first, request.first);
  EXPECT_NE(other->response.first, response.first);
  pair.client().Flush();
  ASSERT_TRUE(pair.UntilEnded(other));
  EXPECT_EQ(pair.Text(*other), "other");
  pair.client().Finish(other, false);
  ASSERT_TRUE(pair.Until([&] { return pair.AllFree(); }));
  EXPECT_EQ(TotalDrops(pair.client().dropped()), 0u);
}

TEST_P(SessionTest, ACallThatNobodyWaitsForGivesItsCellsBackWhenItsResponseComes) {
  SessionPair pair(GetParam(), {});
  for (int i = 0; i < 100; ++i) {
    Call* call = pair.StartEcho("dropped", 64);
    ASSERT_NE(call, nullptr);
    pair.client().Flush();
    pair.client().Retire(call);
    EXPECT_EQ(pair.client().outstanding(), 0u);
  }
  ASSERT_TRUE(pair.Until([&] { return pair.AllFree(); }));
  EXPECT_EQ(pair.functions.calls, 100u);
  EXPECT_FALSE(pair.client().sending());
}

TEST_P(SessionTest, ADrainingExecutorRunsNothingAndSaysSo) {
  SessionPair pair(GetParam(), {});
  pair.draining = true;
  Call* call = pair.StartEcho("no more", 64);
  pair.client().Flush();
  ASSERT_TRUE(pair.UntilEnded(call));
  EXPECT_TRUE(absl::IsUnavailable(call->status)) << call->status;
  EXPECT_EQ(GetCallFate(call->status), CallFate::kNotExecuted);
  pair.client().Finish(call, false);
  EXPECT_EQ(pair.functions.calls, 0u);
  EXPECT_EQ(pair.executor().counters().refused, 1u);
  EXPECT_TRUE(pair.AllFree());
}

// The driver has been away for longer than the deadline, and finds the response and the deadline's
// tick at once.
TEST(SessionDeadlineTest, AResponseThatIsThereBeatsTheDeadline) {
  const Way shm = {"ShmWriteImm", "shm", Notification::kWriteImm};
  SessionPair pair(shm, {});
  pair.CheckEcho("so that the peers know each other");
  const int64_t deadline_ns = transport::MonotonicNs() + 50'000'000;
  Call* call = pair.StartEcho("in time", 7, kEcho, deadline_ns);
  ASSERT_NE(call, nullptr);
  pair.client().Flush();
  const uint64_t executed = pair.executor().counters().executed;
  while (pair.executor().counters().executed == executed) pair.PollExecutor();
  while (transport::MonotonicNs() <= deadline_ns) std::this_thread::yield();
  // After a sleep the next turn has a tick.
  pair.client_reactor().Arm();
  pair.client_reactor().Disarm();
  pair.PollClient();
  ASSERT_TRUE(call->ended());
  EXPECT_TRUE(call->status.ok()) << call->status;
  pair.client().Finish(call, false);
}

// Three calls in one write. The first runs for longer than the deadline of the second, which must
// then not run; the third has none.
TEST_P(SessionTest, ACallWhoseDeadlinePassedWhileOthersRanIsNotRun) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("the fabric is connected");
  const uint64_t before = pair.functions.calls;
  const int64_t begin = transport::MonotonicNs();
  const uint64_t turns = 30'000'000;
  const std::string burn(reinterpret_cast<const char*>(&turns), sizeof(turns));
  Call* slow = pair.StartEcho(burn, 16, kBurn);
  // A deadline of the header's, not of this client, which would give up by itself.
  Call* hurried = pair.StartEcho("hurried", 64, kEcho, begin + 1'000'000);
  Call* patient = pair.StartEcho("patient", 64);
  hurried->deadline_ns = 0;
  pair.client().Flush();
  ASSERT_TRUE(pair.UntilEnded(slow));
  ASSERT_TRUE(pair.UntilEnded(hurried));
  ASSERT_TRUE(pair.UntilEnded(patient));
  EXPECT_TRUE(slow->status.ok()) << slow->status;
  EXPECT_TRUE(absl::IsDeadlineExceeded(hurried->status)) << hurried->status;
  EXPECT_EQ(GetCallFate(hurried->status), CallFate::kNotExecuted);
  EXPECT_TRUE(patient->status.ok()) << patient->status;
  EXPECT_EQ(pair.Text(*patient), "patient");
  EXPECT_EQ(pair.functions.calls, before + 2);
  for (Call* call : {slow, hurried, patient}) pair.client().Finish(call, false);
  EXPECT_TRUE(pair.AllFree());
}

// Small ones fit behind the first one, where that has much room. Long ones leave by themselves.
// Probes, since no function is slow then.
TEST_P(SessionTest, ResponsesOfCallsWithMuchRoomLeaveTogetherIfTheyAreSmall) {
  SessionPair pair(GetParam(), {});
  for (const size_t bytes : {20, 3000}) {
    pair.CheckEcho("the fabric is connected");
    const uint64_t before = pair.executor().responses().writes();
    std::vector<Call*> calls;
    for (char i = 0; i < 5; ++i)
      calls.push_back(pair.StartProbe(std::string(bytes, 'a' + i), 4096));
    pair.client().Flush();
    for (char i = 0; i < 5; ++i) {
      ASSERT_TRUE(pair.UntilEnded(calls[i]));
      EXPECT_EQ(pair.Text(*calls[i]), std::string(bytes, 'a' + i));
    }
    EXPECT_EQ(pair.executor().responses().writes() - before, bytes == 20 ? 1u : 5u);
    for (Call* call : calls) pair.client().Finish(call, false);
    EXPECT_TRUE(pair.AllFree());
  }
  EXPECT_EQ(TotalDrops(pair.client().dropped()), 0u);
}

// A ready response is not held back by a slow function that comes after a slow one.
TEST_P(SessionTest, ResponsesOfSlowFunctionsLeaveOneByOne) {
  SessionPair pair(GetParam(), {});
  const uint64_t turns = 300'000;
  const std::string burn(reinterpret_cast<const char*>(&turns), sizeof(turns));
  std::vector<Call*> calls;
  for (int i = 0; i < 5; ++i) calls.push_back(pair.StartEcho(burn, 16, kBurn));
  pair.client().Flush();
  for (Call* call : calls) {
    ASSERT_TRUE(pair.UntilEnded(call));
    pair.client().Finish(call, false);
  }
  EXPECT_EQ(pair.client().requests().writes(), 1u);
  EXPECT_EQ(pair.executor().responses().writes(), 5u);
}

TEST_P(SessionTest, AResponseThatComesAfterTheSessionHasEndedIsDropped) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("the fabric is connected");
  Call* call = pair.StartEcho("too late", 64);
  pair.client().Flush();
  // The executor has just run it.
  ASSERT_TRUE(pair.Until([&] { return pair.tokens == 2; }));
  pair.client().Fail(absl::UnavailableError("over"));
  ASSERT_TRUE(call->ended());
  EXPECT_EQ(call->status.message(), "over");
  EXPECT_EQ(GetCallFate(call->status), CallFate::kMaybeExecuted);
  pair.client().Finish(call, false);
  ASSERT_TRUE(pair.Until([&] { return TotalDrops(pair.client().dropped()) == 1; }));
  EXPECT_EQ(pair.client().outstanding(), 0u);
}

// The reactor's clock is what the ticks say.
TEST_P(SessionTest, AFailedPostEndsTheSessionOnlyIfNobodyHasABetterReasonInTime) {
  constexpr int64_t kHoldNs = 500'000'000;
  for (const bool reason_comes : {true, false}) {
    SessionPair pair(GetParam(), {});
    pair.CheckEcho("the fabric is connected");
    ClientSession& client = pair.client();
    client.HoldFailures(kHoldNs);
    Call* const failed = pair.StartEcho("not sent", 64);
    Call* const other = pair.StartEcho("perhaps sent", 64);
    ASSERT_NE(other, nullptr);
    client.Flush();
    // Not on the stack: where AddressSanitizer looks after that, GCC aligns to 32 bytes at most.
    const auto operation = std::make_unique<transport::Operation>();
    operation->tag = CellRun{failed->request.first, failed->request.cells}.ToTag();
    operation->completions_due = 0;
    const int64_t began_ns = transport::MonotonicNs();
    client.OnOperationFailed(*operation, absl::UnavailableError("the peer has gone"));
    client.OnTick(began_ns);
    client.OnTick(began_ns + kHoldNs - 1);
    EXPECT_FALSE(failed->ended());
    EXPECT_TRUE(client.failure().ok()) << client.failure();
    if (reason_comes) {
      client.Fail(absl::AbortedError("SIGSEGV"));
    } else {
      client.OnTick(began_ns + kHoldNs);
    }
    for (Call* const call : {failed, other}) {
      ASSERT_TRUE(call->ended());
      EXPECT_EQ(absl::IsAborted(call->status), reason_comes) << call->status;
      EXPECT_EQ(absl::IsUnavailable(call->status), !reason_comes) << call->status;
    }
    // Each keeps its own fate, whatever the reason is.
    EXPECT_EQ(GetCallFate(failed->status), CallFate::kNotSent);
    EXPECT_EQ(GetCallFate(other->status), CallFate::kMaybeExecuted);
    client.Finish(failed, false);
    client.Finish(other, false);
  }
}

TEST_P(SessionTest, WithoutAHoldAFailedPostEndsTheSessionAtOnce) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("the fabric is connected");
  Call* const failed = pair.StartEcho("not sent", 64);
  ASSERT_NE(failed, nullptr);
  const auto operation = std::make_unique<transport::Operation>();
  operation->tag = CellRun{failed->request.first, failed->request.cells}.ToTag();
  operation->completions_due = 0;
  pair.client().OnOperationFailed(*operation, absl::UnavailableError("the peer has gone"));
  pair.client().OnTick(transport::MonotonicNs());
  ASSERT_TRUE(failed->ended());
  EXPECT_TRUE(absl::IsUnavailable(failed->status)) << failed->status;
  EXPECT_EQ(GetCallFate(failed->status), CallFate::kNotSent);
  pair.client().Finish(failed, false);
}

// A request that the worker has not taken must not be overtaken by so many that it would be dropped
// as too old, and its call never end.
TEST_P(SessionTest, NoCallStartsBehindWhichAnEarlierOneWouldBeTooOld) {
  SessionPair::Options options;
  options.first_sequence = uint64_t{0} - 40;
  SessionPair pair(GetParam(), options);
  Call* const lost = pair.StartEcho("", 0);
  ASSERT_NE(lost, nullptr);
  // What leaves is no message.
  *(pair.client().RequestPayload(lost->request) - kHeaderBytes) = std::byte{0};
  pair.client().Flush();
  for (uint64_t i = 1; i < SequenceWindow::kWidth; ++i) {
    pair.CheckEcho("x");
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(pair.StartEcho("x", 1), nullptr);
  // Nobody waits for it any more, but it may still come.
  pair.client().EndEarly(lost, absl::StatusCode::kCancelled, "the test said so");
  EXPECT_EQ(pair.StartEcho("x", 1), nullptr);
  EXPECT_EQ(pair.functions.calls, SequenceWindow::kWidth - 1);
}

// Where every request is answered, or takes long because its input is large, no call waits.
TEST_P(SessionTest, CallsPassThoseThatTakeLong) {
  SessionPair pair(GetParam(), {});
  ClientSession::Request request;
  request.flags = kBulk;
  request.response_capacity = 16;
  Call* const bulk = pair.client().Start(request);
  ASSERT_NE(bulk, nullptr);
  *(pair.client().RequestPayload(bulk->request) - kHeaderBytes) = std::byte{0};
  pair.client().Flush();
  for (uint64_t i = 0; i < SequenceWindow::kWidth + 10; ++i) {
    pair.CheckEcho("x");
    if (HasFatalFailure()) return;
  }
}

TEST_P(SessionTest, FunctionFailuresSayThatTheFunctionRan) {
  SessionPair pair(GetParam(), {});
  Call* failed = pair.StartEcho("x", 64, kFail);
  Call* unknown = pair.StartEcho("x", 64, 999);
  Call* large = pair.StartEcho("four", 3);
  pair.client().Flush();
  for (Call* call : {failed, unknown, large}) ASSERT_TRUE(pair.UntilEnded(call));
  EXPECT_EQ(GetCallFate(failed->status), CallFate::kExecuted);
  EXPECT_EQ(GetFunctionCode(failed->status), -1234);
  EXPECT_EQ(GetCallFate(unknown->status), CallFate::kNotExecuted);
  EXPECT_EQ(GetCallFate(large->status), CallFate::kExecuted);
  EXPECT_TRUE(absl::IsResourceExhausted(large->status)) << large->status;
}

}  // namespace
}  // namespace invoker
