#include "tests/integration/fabric_test.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "src/bootstrap/client/client.h"

namespace invoker {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(5);

// What the server's book has open.
struct OpenLeases {
  size_t leases = 0;
  uint64_t calls = 0;
};

// Looks until `enough` says so. Nothing if that takes too long, or the server does not answer.
absl::optional<OpenLeases> AwaitBook(const ServerProcess* server,
                                     absl::FunctionRef<bool(const OpenLeases&)> enough) {
  const auto asks = bootstrap::BootstrapClient::Connect(server->address(), kPatience);
  if (!asks.ok()) {
    ADD_FAILURE() << asks.status();
    return absl::nullopt;
  }
  const absl::Time give_up = absl::Now() + kPatience;
  do {
    const auto records = (*asks)->GetUsage("", kPatience);
    if (!records.ok()) {
      ADD_FAILURE() << records.status();
      return absl::nullopt;
    }
    OpenLeases open;
    for (const bootstrap::UsageRecord& record : *records) {
      if (!record.open) continue;
      ++open.leases;
      open.calls += record.usage.calls;
    }
    if (enough(open)) return open;
    absl::SleepFor(kLook);
  } while (absl::Now() < give_up);
  return absl::nullopt;
}

}  // namespace

std::vector<FabricUnderTest> OrFromEnvironment(std::vector<FabricUnderTest> fabrics) {
  const char* const provider = getenv("INVOKER_TEST_FABRIC");
  if (provider == nullptr) return fabrics;
  std::set<std::string> notifications;
  for (const FabricUnderTest& fabric : fabrics) notifications.insert(fabric.notify);
  fabrics.clear();
  for (const std::string& notify : notifications) fabrics.push_back({provider, notify});
  return fabrics;
}

ServerProcess* ServerTest::StartServer(const ServerProcessOptions& options) {
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

ServerProcess* FabricTest::StartServer(ServerProcessOptions options) {
  options.provider = GetParam().provider;
  options.notify = GetParam().notify;
  return ServerTest::StartServer(options);
}

std::unique_ptr<Client> FabricTest::Connect(const ServerProcess* server, ClientOptions options) {
  if (server == nullptr) return nullptr;
  ParseNotification(GetParam().notify, &options.notification);
  options.hot_timeout = kClientHotTimeout;
  // Where many tests run at once, a server that is alive may answer late.
  if (options.peer_timeout == ClientOptions().peer_timeout) options.peer_timeout = absl::Seconds(5);
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server->address(), options);
  if (!client.ok()) {
    ADD_FAILURE() << client.status();
    return nullptr;
  }
  EXPECT_EQ((*client)->provider(), GetParam().provider);
  return *std::move(client);
}

bool AwaitOpenLeases(const ServerProcess* server, size_t leases) {
  const auto so_many = [leases](const OpenLeases& open) { return open.leases == leases; };
  return AwaitBook(server, so_many).has_value();
}

uint64_t AwaitMoreCalls(const ServerProcess* server, uint64_t before) {
  const auto more_or_none = [before](const OpenLeases& open) {
    return open.leases == 0 || open.calls > before;
  };
  const absl::optional<OpenLeases> open = AwaitBook(server, more_or_none);
  return open.has_value() && open->leases > 0 ? open->calls : 0;
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
