// Sessions that try in which way long messages are faster: whatever a trial finds, and whatever is
// in its way, calls are as they were.

#include <sched.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/transport/provider/provider_profile.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

// From one look at the placement to the next, and some more.
constexpr absl::Duration kInterval = absl::Milliseconds(1200);

constexpr absl::Duration kPatience = absl::Seconds(60);

constexpr uint64_t kLengths[] = {0, 64, 4064, 4065, 4096, 4097, 8192, 16384, 65536, 65537, 200'000};

class MethodSessionTest : public testing::TestWithParam<const char*> {
 protected:
  MethodSessionTest() : worker_(GetParam()) {}

  static bool MaySendPieces() { return transport::FindRow(GetParam()).may_send_pieces; }

  static void CheckEcho(Client* client, uint64_t bytes) {
    const std::string text(bytes, static_cast<char>('a' + bytes % 26));
    CallOptions options;
    options.response_capacity = static_cast<uint32_t>(bytes);
    const auto response = client->Invoke(Find(*client, "echo"), text, options);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->text(), text);
  }
  static void CheckAllLengths(Client* client) {
    for (int i = 0; i < 3; ++i) {
      for (const uint64_t bytes : kLengths) CheckEcho(client, bytes);
    }
  }

  ServedWorker worker_;
};

INSTANTIATE_TEST_SUITE_P(Providers, MethodSessionTest, testing::Values("shm", "tcp;ofi_rxm"),
                         NameOfProvider);

TEST_P(MethodSessionTest, ATrialFindsOneOfTheLengthsThatItTries) {
  const auto client = worker_.Connect();
  ASSERT_NE(client, nullptr);
  const std::vector<uint64_t> possible = {0, 8192, 16384, 32768, 65536};
  const uint64_t found = client->pieces_up_to();
  EXPECT_EQ(std::count(possible.begin(), possible.end(), found), 1) << found;
  EXPECT_TRUE(MaySendPieces() || found == 0) << found;
  CheckAllLengths(client.get());
}

// The calling thread may run on this processor only.
void PinTo(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

TEST_P(MethodSessionTest, ATrialIsMadeWhereItMatters) {
  // On a busy machine a trial may have no result: the client tries again a second later.
  const auto client = worker_.Connect();
  ASSERT_NE(client, nullptr);
  const absl::Time give_up = absl::Now() + kPatience;
  do {
    CheckAllLengths(client.get());
  } while (MaySendPieces() && client->method_trials() == 0 && absl::Now() < give_up);
  EXPECT_EQ(client->method_trials() > 0, MaySendPieces());
}

TEST_P(MethodSessionTest, ATrialIsMadeAgainWhereAnEndHasMoved) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &all)) processors.push_back(i);
  }
  if (processors.size() < 2 || !MaySendPieces()) GTEST_SKIP() << "nothing to move, or to choose";
  // The first trial is made where the calls are.
  PinTo(processors[0]);
  const auto client = worker_.Connect();
  ASSERT_NE(client, nullptr);
  for (const int processor : {processors[1], processors[0]}) {
    PinTo(processor);
    const uint64_t before = client->method_trials();
    const absl::Time give_up = absl::Now() + kPatience;
    while (client->method_trials() == before && absl::Now() < give_up) CheckEcho(client.get(), 64);
    EXPECT_GT(client->method_trials(), before) << "on processor " << processor;
  }
  sched_setaffinity(0, sizeof(all), &all);
}

TEST_P(MethodSessionTest, AnOptionDecidesInItsPlace) {
  for (const uint64_t limit : {0, 10'000, 65536}) {
    ClientOptions options;
    options.pieces_up_to = limit;
    const auto client = worker_.Connect(options);
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(client->pieces_up_to(), MaySendPieces() ? limit : 0);
    EXPECT_EQ(client->method_trials(), 0u);
    CheckAllLengths(client.get());
    EXPECT_TRUE(client->Ping({}).ok());
    EXPECT_EQ(client->pieces_up_to(), MaySendPieces() ? limit : 0);
  }
}

TEST_P(MethodSessionTest, TooMuchIsRefusedWhereItWouldMatter) {
  ClientOptions options;
  options.pieces_up_to = 65537;
  const auto client = Client::Connect(worker_.server->listen_address(), options);
  if (!MaySendPieces()) {
    EXPECT_TRUE(client.ok()) << client.status();
    return;
  }
  EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << client.status();
  EXPECT_NE(client.status().message().find("pieces_up_to=65537"), std::string::npos);
}

TEST_P(MethodSessionTest, ASmallWindowHasRoomForEveryCallOfTheProgram) {
  ClientOptions options;
  options.window_bytes = 32768;
  const auto client = worker_.Connect(options);
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 10; ++i) CheckEcho(client.get(), client->max_payload());
}

TEST_P(MethodSessionTest, LooksAtThePlacementDisturbNoCall) {
  const auto client = worker_.Connect();
  ASSERT_NE(client, nullptr);
  const absl::Time end = absl::Now() + 3 * kInterval;
  while (absl::Now() < end) CheckAllLengths(client.get());
}

// The executor is inside another client's function when it is time to look: what is asked then is
// answered late.
TEST_P(MethodSessionTest, ALookAtABusyExecutorDisturbsNoCall) {
  const auto client = worker_.Connect();
  const auto other = worker_.Connect();
  ASSERT_TRUE(client != nullptr && other != nullptr);
  absl::SleepFor(kInterval);
  // Long enough for a tick, which finds that it is time.
  uint64_t turns = 5'000'000;
  const std::string burn(reinterpret_cast<const char*>(&turns), sizeof(turns));
  EXPECT_TRUE(client->Invoke(Find(*client, "burn"), burn).ok());
  Future gate = other->InvokeAsync(Find(*other, "gate"), "");
  worker_.functions.entered.WaitForNotification();
  CallOptions options;
  options.timeout = absl::Milliseconds(50);
  const auto response = client->Invoke(Find(*client, "echo"), "hello", options);
  EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded) << response.status();
  worker_.functions.open.Notify();
  EXPECT_TRUE(gate.Get().ok());
  if (MaySendPieces()) {
    const absl::StatusOr<Buffer> all = client->AllocateBuffer(client->max_payload());
    EXPECT_TRUE(all.ok()) << all.status();
  }
  options.timeout = kPatience;
  options.response_capacity = static_cast<uint32_t>(client->max_payload());
  const auto call_with_all_room = [&] {
    return client->Invoke(Find(*client, "echo"), "hello", options).status();
  };
  // Until the answer to the call that timed out has come.
  while (absl::IsResourceExhausted(call_with_all_room())) {
  }
  // What was asked has been answered: a call of the program has all the room now, and others are
  // refused at once.
  Future second_gate = client->InvokeAsync(Find(*client, "second_gate"), "", options);
  ASSERT_TRUE(worker_.functions.second_entered.WaitForNotificationWithTimeout(kPatience));
  second_gate.Cancel();
  EXPECT_TRUE(absl::IsResourceExhausted(call_with_all_room()));
  worker_.functions.second_open.Notify();
  // Until the answer comes.
  while (absl::IsResourceExhausted(call_with_all_room())) {
  }
  CheckAllLengths(client.get());
  CheckEcho(client.get(), client->max_payload());
  EXPECT_EQ(client->status(), absl::OkStatus());
  EXPECT_EQ(TotalDrops(client->dropped_responses()), 0u);
}

}  // namespace
}  // namespace invoker
