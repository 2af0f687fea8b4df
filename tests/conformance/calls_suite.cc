#include "tests/conformance/calls_suite.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "invoker/lease.h"
#include "tests/integration/random_calls.h"

namespace invoker::conformance {
namespace {

// A loaded machine and a slow fabric need longer for a probe than any network does.
constexpr absl::Duration kProbeTimeout = absl::Seconds(20);

}  // namespace

ClientOptions OnTestedFabric(const std::string& notify, ClientOptions options) {
  ParseNotification(notify, &options.notification);
  options.provider = Tested().request.provider;
  options.fabric_address = Tested().request.address;
  options.hot_timeout = kClientHotTimeout;
  options.connect_timeout = kPatience;
  options.probe_timeout = kProbeTimeout;
  // Where the processor is emulated, a heartbeat may wait for a real one.
  options.peer_timeout = absl::Seconds(20);
  return options;
}

int RunClient(int argc, char** argv) {
  if (argc != 7) return 2;
  const auto client = Client::Connect(argv[2], OnTestedFabric(argv[3], {}));
  absl::Status status = client.status();
  if (status.ok()) {
    status = MakeRandomCalls(client->get(), std::strtoull(argv[4], nullptr, 10), std::atoi(argv[5]),
                             std::strtoull(argv[6], nullptr, 10));
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int RunHolder(int argc, char** argv) {
  if (argc != 5) return 2;
  LeaseOptions options;
  options.executors = static_cast<uint32_t>(std::atoi(argv[4]));
  options.client = OnTestedFabric(argv[3]);
  const auto lease = Lease::Acquire(argv[2], options);
  absl::Status status = lease.status();
  for (size_t i = 0; status.ok() && i < (*lease)->size(); ++i) {
    absl::StatusOr<RemoteFunction> echo = (*lease)->Function("test.echo");
    status = echo.ok() ? (*lease)->executor(i).Invoke(*echo, "held").status() : echo.status();
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("held\n");
  std::fflush(stdout);
  while (true) pause();
}

void CallsSuite::SetUp() {
  if (const std::string absent = WhyAbsent(); !absent.empty()) GTEST_SKIP() << absent;
  ASSERT_TRUE(Tested().status.ok()) << Tested().status;
  if (const std::string limit = KnownLimit(); !limit.empty()) GTEST_SKIP() << "limit: " << limit;
  Notification notification;
  if (GetParam() == "write_imm" && ParseNotification(GetParam(), &notification) &&
      Tested().profile.notification != notification) {
    GTEST_SKIP() << "the fabric's writes carry no immediate that their target hears of";
  }
}

ServerProcess* CallsSuite::StartServer(ServerProcessOptions options) {
  options.provider = Tested().request.provider;
  options.notify = GetParam();
  if (!Tested().request.address.empty()) {
    options.more.push_back("--fabric-address=" + Tested().request.address);
  }
  return ServerTest::StartServer(options);
}

std::unique_ptr<Client> CallsSuite::Connect(const ServerProcess* server, ClientOptions options) {
  if (server == nullptr) return nullptr;
  auto client = Client::Connect(server->address(), OnTestedFabric(GetParam(), options));
  if (!client.ok()) {
    ADD_FAILURE() << client.status();
    return nullptr;
  }
  EXPECT_EQ((*client)->provider(), Tested().request.provider);
  return *std::move(client);
}

std::unique_ptr<ChildProcess> CallsSuite::StartClient(const ServerProcess* server, uint64_t seed,
                                                      int calls, uint64_t limit) {
  auto child =
      ChildProcess::Start({{"/proc/self/exe", kClientFlag, server->address(), GetParam(),
                            absl::StrCat(seed), absl::StrCat(calls), absl::StrCat(limit)}});
  if (!child.ok()) {
    ADD_FAILURE() << child.status();
    return nullptr;
  }
  return *std::move(child);
}

std::unique_ptr<ChildProcess> CallsSuite::StartHolder(const ServerProcess* server,
                                                      uint32_t executors) {
  auto child = ChildProcess::Start(
      {{"/proc/self/exe", kHolderFlag, server->address(), GetParam(), absl::StrCat(executors)}});
  const absl::Status held = child.ok() ? (*child)->FirstLine().status() : child.status();
  if (!held.ok()) {
    ADD_FAILURE() << held;
    return nullptr;
  }
  return *std::move(child);
}

}  // namespace invoker::conformance
