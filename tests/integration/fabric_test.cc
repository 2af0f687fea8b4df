#include "tests/integration/fabric_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

namespace invoker {

ServerProcess* ServerTest::StartServer(const ServerOptions& options) {
  absl::StatusOr<std::unique_ptr<ServerProcess>> server = ServerProcess::Start(options);
  if (!server.ok()) {
    ADD_FAILURE() << server.status();
    return nullptr;
  }
  servers_.push_back(*std::move(server));
  return servers_.back().get();
}

void ServerTest::TearDown() {
  for (const std::unique_ptr<ServerProcess>& server : servers_) {
    const int exit_code = server->Stop();
    if (server->ends_cleanly()) {
      EXPECT_EQ(exit_code, 0) << server->log();
    }
    EXPECT_EQ(SharedMemoryOf(server->pid()), std::vector<std::string>());
  }
  servers_.clear();
  EXPECT_EQ(SharedMemoryOf(getpid()), std::vector<std::string>());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child process is left";
  EXPECT_EQ(errno, ECHILD);
}

ServerProcess* FabricTest::StartServer(ServerOptions options) {
  options.provider = GetParam().provider;
  options.notify = GetParam().notify;
  return ServerTest::StartServer(options);
}

std::unique_ptr<Client> FabricTest::Connect(const ServerProcess* server, ClientOptions options) {
  if (server == nullptr) return nullptr;
  transport::ParseNotification(GetParam().notify, &options.notification);
  options.hot_timeout = kClientHotTimeout;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server->address(), options);
  if (!client.ok()) {
    ADD_FAILURE() << client.status();
    return nullptr;
  }
  EXPECT_EQ((*client)->provider(), GetParam().provider);
  return *std::move(client);
}

RemoteFunction FunctionNamed(const Client& client, const std::string& name) {
  absl::StatusOr<RemoteFunction> function = client.Function(name);
  if (!function.ok()) {
    ADD_FAILURE() << function.status();
    std::abort();
  }
  return *function;
}

uint64_t TestSeed() {
  const char* given = std::getenv("INVOKER_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("INVOKER_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace invoker
