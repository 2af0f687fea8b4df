// Whole calls of every size, one after the other and many at once.

#include <algorithm>
#include <deque>
#include <random>

#include "tests/conformance/calls_suite.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"

namespace invoker::conformance {
namespace {

class Calls : public CallsSuite {};

TEST_P(Calls, EverySizeAtABoundaryArrivesUnchanged) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  const transport::Profile& profile = Tested().profile;
  std::vector<uint64_t> sizes = {0, 1, 31, 32, 33, 63, 64, 65, 95, 96, 97, 4063, 4064, 4065, 65536};
  // A message is its header of 32 bytes and the payload.
  for (uint64_t limit : {uint64_t{profile.inject_bytes}, uint64_t{profile.eager_bytes}}) {
    for (uint64_t message : {limit - 1, limit, limit + 1}) {
      if (limit > 0 && message >= 32) sizes.push_back(message - 32);
    }
  }
  sizes.push_back(client->max_payload() - 1);
  sizes.push_back(client->max_payload());
  CallOptions options;
  for (uint64_t size : sizes) {
    const std::string input = RandomBytes(std::min(size, client->max_payload()), size);
    options.response_capacity = static_cast<uint32_t>(std::max<uint64_t>(input.size(), 1));
    ASSERT_EQ(CheckAnswer({"test.echo", input, input}, client->Invoke(echo, input, options)),
              absl::OkStatus());
  }
}

TEST_P(Calls, RandomFunctionsAndSizesArriveUnchanged) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), static_cast<int>(Scaled(200)),
                            client->max_payload()),
            absl::OkStatus());
}

TEST_P(Calls, SixtyFourAreInFlightOnOneSession) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  std::mt19937_64 random(TestSeed());
  struct Started {
    RandomCall call;
    Future future;
  };
  std::deque<Started> started;
  const uint32_t count = 64 + Scaled(600);
  for (uint32_t i = 0; i < count; ++i) {
    RandomCall call = MakeRandomCall(&random, 8000);
    CallOptions options;
    options.response_capacity = static_cast<uint32_t>(std::max<size_t>(call.expected.size(), 1));
    Future future = client->InvokeAsync(FunctionNamed(*client, call.function), call.input, options);
    started.push_back({std::move(call), std::move(future)});
    if (started.size() < 64) continue;
    ASSERT_EQ(CheckAnswer(started.front().call, started.front().future.Get()), absl::OkStatus());
    started.pop_front();
  }
  for (Started& last : started) {
    EXPECT_EQ(CheckAnswer(last.call, last.future.Get()), absl::OkStatus());
  }
}

TEST_P(Calls, ACallThatTakesTooLongEndsAndTheSessionGoesOn) {
  Rendezvous rendezvous;
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const RemoteFunction hold = FunctionNamed(*client, "test.rendezvous");
  Future held = client->InvokeAsync(hold, rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  CallOptions hurried;
  hurried.timeout = absl::Milliseconds(20);
  const absl::Status late =
      client->Invoke(FunctionNamed(*client, "test.echo"), "late", hurried).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  rendezvous.Release();
  EXPECT_EQ(CheckAnswer({"test.rendezvous", "", "held"}, held.Get()), absl::OkStatus());
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 5, 10'000), absl::OkStatus());
}

TEST_P(Calls, TheSessionSaysHowItNotifies) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->downgrade_reason(), "");
  if (GetParam() == "auto") {
    EXPECT_EQ(client->notification(), Tested().profile.notification);
  } else {
    EXPECT_EQ(NotificationName(client->notification()), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Calls, testing::ValuesIn(EveryNotification()), NameOfNotification);

}  // namespace
}  // namespace invoker::conformance
