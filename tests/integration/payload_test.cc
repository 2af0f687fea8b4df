// Payloads of every size arrive as they were sent, over every fabric.

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"

namespace invoker {
namespace {

class PayloadTest : public FabricTest {};

TEST_P(PayloadTest, HundredsOfRandomSizesArriveUnchanged) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 300, client->max_payload()),
            absl::OkStatus());
}

TEST_P(PayloadTest, TheSmallestAndTheLargestPayloadsArriveUnchanged) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  CallOptions options;
  for (uint64_t size :
       {uint64_t{0}, uint64_t{1}, client->max_payload() - 1, client->max_payload()}) {
    const std::string input = RandomBytes(size, size);
    options.response_capacity = static_cast<uint32_t>(std::max<uint64_t>(size, 1));
    EXPECT_EQ(CheckAnswer({"test.echo", input, input}, client->Invoke(echo, input, options)),
              absl::OkStatus());
  }
}

TEST_P(PayloadTest, ManyAsynchronousCallsOfRandomSizesArriveUnchanged) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  std::mt19937_64 random(TestSeed());
  struct Started {
    RandomCall call;
    Future future;
  };
  std::deque<Started> started;
  for (int i = 0; i < 400; ++i) {
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

TEST_P(PayloadTest, ABufferIsSentAgainAndAgainWithoutACopy) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(100'000);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 100; ++i) {
    const size_t size = random() % (buffer->size() + 1);
    const std::string input = RandomBytes(size, random());
    memcpy(buffer->data().data(), input.data(), size);
    ASSERT_EQ(CheckAnswer({"test.echo", input, input}, client->Invoke(echo, {*buffer, size})),
              absl::OkStatus());
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, PayloadTest, AllFabrics(), FabricName);

struct WindowCase {
  const char* provider;
  const char* notify;
  const char* window;
  uint64_t bytes;
};

class WindowTest : public ServerTest, public testing::WithParamInterface<WindowCase> {};

TEST_P(WindowTest, RandomSizesUpToTheWindowsLimitArriveUnchanged) {
  ServerProcessOptions options;
  options.provider = GetParam().provider;
  options.notify = GetParam().notify;
  options.window = GetParam().window;
  ServerProcess* server = StartServer(options);
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->ready()["window"], GetParam().bytes);
  ClientOptions client_options;
  client_options.hot_timeout = kClientHotTimeout;
  client_options.peer_timeout = absl::Seconds(5);
  const auto client = Client::Connect(server->address(), client_options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->max_payload(), GetParam().bytes - 32);
  EXPECT_EQ(MakeRandomCalls(client->get(), TestSeed(), 60, (*client)->max_payload()),
            absl::OkStatus());
}

TEST_P(WindowTest, AClientMayAskForASmallerWindow) {
  ServerProcessOptions options;
  options.provider = GetParam().provider;
  options.notify = GetParam().notify;
  options.window = GetParam().window;
  ServerProcess* server = StartServer(options);
  ASSERT_NE(server, nullptr);
  ClientOptions client_options;
  client_options.hot_timeout = kClientHotTimeout;
  client_options.peer_timeout = absl::Seconds(5);
  client_options.window_bytes = 4096;
  const auto client = Client::Connect(server->address(), client_options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->max_payload(), 4096u - 32);
  EXPECT_EQ(MakeRandomCalls(client->get(), TestSeed(), 60, (*client)->max_payload()),
            absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(
    Windows, WindowTest,
    testing::Values(WindowCase{transport::WithImmediates("tcp;ofi_rxm"), "write_imm", "4096", 4096},
                    WindowCase{"tcp;ofi_rxm", "send_after_write", "64K", 65536},
                    WindowCase{"tcp;ofi_rxm", "auto", "16M", 16 << 20},
                    WindowCase{"shm", "send_after_write", "4096", 4096},
                    WindowCase{"shm", "write_imm", "64K", 65536},
                    WindowCase{"shm", "auto", "16M", 16 << 20}),
    [](const testing::TestParamInfo<WindowCase>& info) {
      return FabricName({{info.param.provider, info.param.notify}, 0}) + "_" + info.param.window;
    });

}  // namespace
}  // namespace invoker
