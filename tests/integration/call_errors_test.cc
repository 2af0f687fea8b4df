// Calls that fail: what the caller is told, and that the session goes on.

#include <cstring>

#include "absl/strings/match.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

void ExpectError(const absl::Status& status, absl::StatusCode code, CallFate fate,
                 const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_EQ(CallFateName(GetCallFate(status)), CallFateName(fate)) << status;
  for (const std::string& part : parts) {
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << part << " is not in: " << status;
  }
}

class CallErrorsTest : public FabricTest {
 protected:
  void SetUp() override {
    client_ = Connect(StartServer());
    ASSERT_NE(client_, nullptr);
  }
  void TearDown() override {
    if (client_ != nullptr) ExpectAlive();
    client_.reset();
    FabricTest::TearDown();
  }
  absl::Status Error(const std::string& function, absl::string_view input,
                     const CallOptions& options = {}) {
    return client_->Invoke(FunctionNamed(*client_, function), input, options).status();
  }
  // The error of a call whose deadline passes while its function runs.
  absl::Status ErrorWhileItRuns(Rendezvous* rendezvous, CallOptions options = {}) {
    return rendezvous->RunBeyondDeadline([&](absl::Duration timeout) {
      options.timeout = timeout;
      return Error("test.rendezvous", rendezvous->path(), options);
    });
  }
  void ExpectAlive() {
    EXPECT_EQ(client_->status(), absl::OkStatus());
    EXPECT_EQ(CheckAnswer({"test.echo", "alive", "alive"},
                          client_->Invoke(FunctionNamed(*client_, "test.echo"), "alive")),
              absl::OkStatus());
  }

  std::unique_ptr<Client> client_;
};

TEST_P(CallErrorsTest, AnUnknownFunctionIsRefusedWithTheNamesThatThereAre) {
  const absl::Status status = client_->Function("test.nothing").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "test.nothing")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "test.echo")) << status;
}

TEST_P(CallErrorsTest, AFailureCarriesTheFunctionsMessage) {
  ExpectError(Error("test.fail", "no luck today"), absl::StatusCode::kUnknown, CallFate::kExecuted,
              {"no luck today"});
  ExpectError(Error("c.refuse", "abc"), absl::StatusCode::kUnknown, CallFate::kExecuted,
              {"refused 3 bytes", "-1007"});
}

TEST_P(CallErrorsTest, AFailureCarriesTheFunctionsCode) {
  const int32_t code = -2024;
  std::string input(sizeof(code), '\0');
  memcpy(input.data(), &code, sizeof(code));
  ExpectError(Error("test.fail_with_code", input + "out of paper"), absl::StatusCode::kUnknown,
              CallFate::kExecuted, {"-2024", "out of paper"});
}

TEST_P(CallErrorsTest, AnExceptionIsAFailureWithItsText) {
  ExpectError(Error("test.throw", "thrown away"), absl::StatusCode::kUnknown, CallFate::kExecuted,
              {"thrown away"});
  ExpectError(Error("test.throw_int", ""), absl::StatusCode::kUnknown, CallFate::kExecuted, {});
  ExpectError(Error("broken.throw_through", ""), absl::StatusCode::kUnknown, CallFate::kExecuted,
              {"exception"});
}

TEST_P(CallErrorsTest, AFunctionThatBreaksItsContractIsAFailure) {
  ExpectError(Error("broken.overclaim", ""), absl::StatusCode::kUnknown, CallFate::kExecuted,
              {"room"});
  ExpectError(Error("broken.reserved_code", ""), absl::StatusCode::kUnknown, CallFate::kExecuted,
              {"-500"});
  ExpectError(Error("broken.silent", ""), absl::StatusCode::kUnknown, CallFate::kExecuted, {});
  ExpectError(Error("broken.unterminated", ""), absl::StatusCode::kUnknown, CallFate::kExecuted,
              {"xxxx"});
}

TEST_P(CallErrorsTest, AResponseThatDoesNotFitSaysHowMuchItNeeds) {
  const std::string input = RandomBytes(1000, 1);
  CallOptions options;
  options.response_capacity = 1999;
  ExpectError(Error("test.twice", input, options), absl::StatusCode::kResourceExhausted,
              CallFate::kExecuted, {"2000"});
  options.response_capacity = 2000;
  EXPECT_EQ(Error("test.twice", input, options), absl::OkStatus());
  ExpectError(Error("test.fill", FillRequest(3'000'000'000, 1)),
              absl::StatusCode::kResourceExhausted, CallFate::kExecuted, {"3000000000"});
}

// Its input is registered for the call, and its response does not fit.
TEST_P(CallErrorsTest, ARequestBeyondTheWindowNeedsRoomForItsResponse) {
  ExpectError(Error("test.echo", std::string(client_->max_payload() + 1, 'x')),
              absl::StatusCode::kResourceExhausted, CallFate::kExecuted, {"2097121"});
}

TEST_P(CallErrorsTest, WhatIsTooLargeForTheWindowSaysHowMuchThereIsRoomFor) {
  ExpectError(client_->Ping(std::vector<std::byte>(client_->max_payload() + 1)),
              absl::StatusCode::kInvalidArgument, CallFate::kNotSent, {"2097121", "2097120"});
  CallOptions options;
  options.response_capacity = static_cast<uint32_t>(client_->max_payload() + 1);
  ExpectError(Error("test.echo", "x", options), absl::StatusCode::kInvalidArgument,
              CallFate::kNotSent, {"response_capacity", "2097120"});
}

TEST_P(CallErrorsTest, ABufferTakesOneCallAtATime) {
  Rendezvous rendezvous;
  absl::StatusOr<Buffer> buffer = client_->AllocateBuffer(1000);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const std::string& path = rendezvous.path();
  ASSERT_LE(path.size(), buffer->size());
  memcpy(buffer->data().data(), path.data(), path.size());
  const RemoteFunction hold = FunctionNamed(*client_, "test.rendezvous");
  Future first = client_->InvokeAsync(hold, {*buffer, path.size()});
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  ExpectError(client_->Invoke(hold, {*buffer, path.size()}).status(),
              absl::StatusCode::kFailedPrecondition, CallFate::kNotSent, {"in use"});
  rendezvous.Release();
  EXPECT_EQ(CheckAnswer({"test.rendezvous", path, "held"}, first.Get()), absl::OkStatus());
  rendezvous.Release();
  EXPECT_EQ(
      CheckAnswer({"test.rendezvous", path, "held"}, client_->Invoke(hold, {*buffer, path.size()})),
      absl::OkStatus());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
}

TEST_P(CallErrorsTest, ABufferThatDoesNotFitIsRefused) {
  EXPECT_EQ(client_->AllocateBuffer(client_->max_payload() + 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  absl::StatusOr<Buffer> all = client_->AllocateBuffer(client_->max_payload());
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(client_->AllocateBuffer(1).status().code(), absl::StatusCode::kResourceExhausted);
  ExpectError(Error("test.echo", "x"), absl::StatusCode::kResourceExhausted, CallFate::kNotSent,
              {"buffers"});
}

TEST_P(CallErrorsTest, ACallThatTakesTooLongEndsAndTheSessionGoesOn) {
  Rendezvous rendezvous;
  ExpectError(ErrorWhileItRuns(&rendezvous), absl::StatusCode::kDeadlineExceeded,
              CallFate::kMaybeExecuted, {"deadline"});
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  rendezvous.Release();
  // TearDown shows that the session lives.
}

TEST_P(CallErrorsTest, TheCellsOfACallThatTimedOutComeBackWithItsAnswer) {
  Rendezvous rendezvous;
  CallOptions options;
  // All of the response window.
  options.response_capacity = static_cast<uint32_t>(client_->max_payload());
  for (int round = 0; round < 3; ++round) {
    ExpectError(ErrorWhileItRuns(&rendezvous, options), absl::StatusCode::kDeadlineExceeded,
                CallFate::kMaybeExecuted, {"deadline"});
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    // Nothing else fits until that call has been answered, since its answer may still be written
    // there.
    ExpectError(Error("test.echo", "x"), absl::StatusCode::kResourceExhausted, CallFate::kNotSent,
                {"timed out"});
    rendezvous.Release();
    absl::Status status;
    do {
      status = Error("test.echo", "x");
    } while (absl::IsResourceExhausted(status));
    EXPECT_EQ(status, absl::OkStatus());
  }
}

TEST_P(CallErrorsTest, AFutureCanBeWaitedForInSteps) {
  Rendezvous rendezvous;
  Future future =
      client_->InvokeAsync(FunctionNamed(*client_, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  EXPECT_FALSE(future.Wait(absl::Milliseconds(1)));
  rendezvous.Release();
  EXPECT_TRUE(future.Wait(kPatience));
  EXPECT_EQ(CheckAnswer({"test.rendezvous", "", "held"}, future.Get()), absl::OkStatus());
  EXPECT_EQ(future.Get().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(CallErrorsTest, AFutureThatIsDroppedAbandonsTheResultOnly) {
  Rendezvous rendezvous;
  {
    Future future =
        client_->InvokeAsync(FunctionNamed(*client_, "test.rendezvous"), rendezvous.path());
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
  }
  rendezvous.Release();
}

TEST_P(CallErrorsTest, ATimeoutThatIsOverAlreadySendsNothing) {
  CallOptions options;
  options.timeout = absl::ZeroDuration();
  ExpectError(Error("test.echo", "x", options), absl::StatusCode::kDeadlineExceeded,
              CallFate::kNotSent, {});
}

INSTANTIATE_TEST_SUITE_P(Fabrics, CallErrorsTest, AllFabrics(), FabricName);

}  // namespace
}  // namespace invoker
