// Sessions with tags over real servers: whatever can be called without them can be with them.

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invoker/client.h"
#include "invoker/lease.h"
#include "invoker/registered_window.h"
#include "src/invoke/wire/drop_counters.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"
#include "tests/invoke/with_output.h"

namespace invoker {
namespace {

constexpr DataAuth kAll[] = {DataAuth::kOff, DataAuth::kHeader, DataAuth::kFull};

class DataAuthOverServersTest : public FabricTest {};

INSTANTIATE_TEST_SUITE_P(Fabrics, DataAuthOverServersTest, AllFabrics(), FabricName);

TEST_P(DataAuthOverServersTest, TheStrongerOfBothIsUsed) {
  for (const DataAuth wanted_there : kAll) {
    ServerProcessOptions options;
    options.more = {absl::StrCat("--data-auth=", DataAuthName(wanted_there))};
    ServerProcess* server = StartServer(options);
    ASSERT_NE(server, nullptr);
    for (const DataAuth wanted_here : kAll) {
      ClientOptions client_options;
      client_options.data_auth = wanted_here;
      const std::unique_ptr<Client> client = Connect(server, client_options);
      ASSERT_NE(client, nullptr);
      EXPECT_EQ(client->data_auth(), std::max(wanted_there, wanted_here));
      const absl::Status status = MakeRandomCalls(client.get(), TestSeed(), 60, 200'000);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(TotalDrops(client->dropped_responses()), 0u);
    }
  }
}

// The tag has its place behind the request, and the rest of the buffer is the caller's.
TEST_P(DataAuthOverServersTest, APartOfABufferLeavesTheRestAsItIs) {
  ServerProcess* server = StartServer();
  ASSERT_NE(server, nullptr);
  for (const DataAuth auth : kAll) {
    ClientOptions options;
    options.data_auth = auth;
    const std::unique_ptr<Client> client = Connect(server, options);
    ASSERT_NE(client, nullptr);
    absl::StatusOr<Buffer> buffer = client->AllocateBuffer(100);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    memset(buffer->data().data(), 'b', 100);
    for (const size_t size : {0, 50, 99, 100}) {
      const absl::StatusOr<Response> response =
          client->Invoke(FunctionNamed(*client, "test.echo"), {*buffer, size});
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_EQ(response->text(), std::string(size, 'b'));
      EXPECT_TRUE(std::all_of(buffer->data().begin(), buffer->data().end(),
                              [](std::byte byte) { return byte == std::byte{'b'}; }));
    }
  }
}

TEST_P(DataAuthOverServersTest, LargePayloadsAndInputsInTheMessageArriveWhole) {
  ServerProcess* server = StartServer();
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.data_auth = DataAuth::kFull;
  const std::unique_ptr<Client> client = Connect(server, options);
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  for (const size_t size : {size_t{1000}, size_t{5'000'000}}) {
    std::vector<std::byte> input(size), output(size);
    for (size_t i = 0; i < size; ++i) input[i] = static_cast<std::byte>(i * 31 >> 3);
    const absl::StatusOr<Response> response =
        client->Invoke(echo, input, WithOutput(absl::MakeSpan(output)));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->size(), size);
    EXPECT_EQ(input, output);
  }
}

// Executors of a lease's own have the server's --data-auth, too.
TEST_P(DataAuthOverServersTest, LeasedExecutorsHaveIt) {
  if (GetParam().notify != "auto") GTEST_SKIP() << "the notification plays no part";
  ServerProcessOptions server_options;
  // shm is for processes of one user.
  server_options.more = {"--lease-cores=1", "--data-auth=header",
                         absl::StrCat("--executor-user=", getpwuid(geteuid())->pw_name)};
  ServerProcess* server = StartServer(server_options);
  ASSERT_NE(server, nullptr);
  LeaseOptions options;
  options.executors = 1;
  options.client.provider = GetParam().provider;
  options.client.hot_timeout = kClientHotTimeout;
  options.client.peer_timeout = absl::Seconds(5);
  const absl::StatusOr<std::unique_ptr<Lease>> lease = Lease::Acquire(server->address(), options);
  ASSERT_TRUE(lease.ok()) << lease.status();
  Client* client = &(*lease)->executor(0);
  EXPECT_EQ(client->data_auth(), DataAuth::kHeader);
  const absl::Status status = MakeRandomCalls(client, TestSeed(), 20, 20'000);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace invoker
