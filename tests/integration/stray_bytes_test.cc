// Strangers who speak other protocols to a server's ports, while honest clients call: the server
// stays, no answer is wrong, and new sessions come about afterwards.

#include "tests/integration/stray_bytes.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/transport/discovery/discovery.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

constexpr size_t kConnections = 1500;  // to each port
constexpr int kHonestClients = 2;

// `patience` is what a starved machine may take, or, where endpoints die, a session that is lost.
ClientOptions HonestOptions(absl::Duration patience) {
  ClientOptions options;
  options.hot_timeout = kClientHotTimeout;
  options.peer_timeout = patience;
  options.connect_timeout = patience;
  // Longer than the strangers' connections take, which are let in one by one.
  options.probe_timeout = patience / 2;
  return options;
}

// Calls without an end. A client whose endpoint is lost connects again.
class HonestClient {
 public:
  HonestClient(std::string address, int number, ClientOptions options)
      : address_(std::move(address)),
        number_(number),
        options_(std::move(options)),
        thread_([this] { Run(); }) {}
  ~HonestClient() { Stop(); }

  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  uint64_t answers() const { return answers_; }
  uint64_t lost() const { return lost_; }
  // Waits for an answer to a call that begins from now on. False if that takes too long.
  bool AwaitAnswer() const {
    const uint64_t before = answers_;
    const absl::Time give_up = absl::Now() + kPatience;
    while (answers_ < before + 2 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(5));
    return answers_ >= before + 2;
  }

 private:
  void Run() {
    while (!stop_) {
      absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(address_, options_);
      if (client.ok()) CallWhileItLives(client->get());
      if (!stop_) ++lost_;
    }
  }

  void CallWhileItLives(Client* client) {
    const RemoteFunction echo = FunctionNamed(*client, "test.echo");
    while (!stop_) {
      const std::string payload = absl::StrCat("client ", number_, " call ", answers_.load());
      const absl::StatusOr<Response> response = client->Invoke(echo, payload);
      if (!response.ok()) {
        EXPECT_EQ(response.status().code(), absl::StatusCode::kUnavailable) << response.status();
        return;
      }
      EXPECT_EQ(response->text(), payload);
      ++answers_;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  const std::string address_;
  const int number_;
  const ClientOptions options_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> answers_{0};
  std::atomic<uint64_t> lost_{0};
  std::thread thread_;
};

struct Target {
  std::string name;
  std::string provider;
  // Whether its endpoint is known to be lost to such bytes (docs/design/libfabric.md).
  bool dies;
  // Fewer than there are connections, and more that it could ask for; empty: as the test has.
  std::string descriptors;
};

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

class StrayBytesTest : public ServerTest, public testing::WithParamInterface<Target> {};

INSTANTIATE_TEST_SUITE_P(
    Fabrics, StrayBytesTest,
    testing::Values(Target{"TcpRxm", "tcp;ofi_rxm", false, ""}, Target{"Tcp", "tcp", false, ""},
                    Target{"Net", "net", false, ""}, Target{"Sockets", "sockets", true, ""},
                    Target{"SocketsWithFewDescriptors", "sockets", true, "600:6000"}),
    [](const auto& info) { return info.param.name; });

TEST_P(StrayBytesTest, NewSessionsWorkAfterThem) {
  transport::FabricRequest request;
  request.provider = GetParam().provider;
  request.address = "127.0.0.1";
  if (!transport::Discover(request).ok()) GTEST_SKIP() << "not in this libfabric";
  ServerProcessOptions options;
  options.provider = GetParam().provider;
  options.more = {"--endpoint-check=500ms"};
  if (!GetParam().descriptors.empty()) {
    options.prefix = {"/usr/bin/prlimit", "--nofile=" + GetParam().descriptors};
  }
  ServerProcess* const server = StartServer(options);
  ASSERT_NE(server, nullptr);
  const uint64_t seed = TestSeed();
  std::vector<std::unique_ptr<HonestClient>> clients;
  for (int i = 0; i < kHonestClients; ++i) {
    clients.push_back(std::make_unique<HonestClient>(
        server->address(), i, HonestOptions(absl::Seconds(GetParam().dies ? 5 : 30))));
    ASSERT_TRUE(clients.back()->AwaitAnswer());
  }
  const std::vector<uint16_t> ports = ListeningPorts(server->pid());
  // The bootstrap's, and the endpoint's.
  ASSERT_GE(ports.size(), 2u);
  EXPECT_GT(ThrowStrayBytes(ports, kConnections, seed), kConnections);
  if (GetParam().dies) {
    EXPECT_TRUE(server->AwaitLog("answers no new peer")) << server->log();
  }
  for (const auto& client : clients) {
    EXPECT_TRUE(client->AwaitAnswer()) << server->log();
    if (!GetParam().dies) {
      EXPECT_EQ(client->lost(), 0u) << server->log();
    }
    client->Stop();
  }
  // A server that has run out of descriptors turns connections away until its lost endpoint is
  // closed, which had them.
  const HonestClient after(server->address(), kHonestClients, HonestOptions(absl::Seconds(30)));
  EXPECT_TRUE(after.AwaitAnswer()) << server->log();
  if (!GetParam().dies) {
    EXPECT_EQ(after.lost(), 0u) << server->log();
  }
}

// One fabric's endpoint dies. Clients of the other fabric notice nothing.
TEST_F(ServerTest, StrayBytesHarmNoOtherFabric) {
  for (const char* provider : {"sockets", "tcp;ofi_rxm"}) {
    transport::FabricRequest request;
    request.provider = provider;
    request.address = "127.0.0.1";
    if (!transport::Discover(request).ok()) GTEST_SKIP() << provider << " is not in this libfabric";
  }
  ServerProcessOptions options;
  options.provider = "sockets,tcp;ofi_rxm";
  options.more = {"--endpoint-check=500ms"};
  ServerProcess* const server = StartServer(options);
  ASSERT_NE(server, nullptr);
  ClientOptions dies = HonestOptions(absl::Seconds(5));
  dies.provider = "sockets";
  ClientOptions lives = HonestOptions(absl::Seconds(30));
  lives.provider = "tcp;ofi_rxm";
  HonestClient on_sockets(server->address(), 0, dies);
  HonestClient on_tcp(server->address(), 1, lives);
  ASSERT_TRUE(on_sockets.AwaitAnswer());
  ASSERT_TRUE(on_tcp.AwaitAnswer());
  EXPECT_GT(ThrowStrayBytes(ListeningPorts(server->pid()), kConnections, TestSeed()), kConnections);
  EXPECT_TRUE(server->AwaitLog("provider sockets takes no more sessions")) << server->log();
  EXPECT_TRUE(on_sockets.AwaitAnswer()) << server->log();
  EXPECT_TRUE(on_tcp.AwaitAnswer()) << server->log();
  EXPECT_EQ(on_tcp.lost(), 0u) << server->log();
}

}  // namespace
}  // namespace invoker
