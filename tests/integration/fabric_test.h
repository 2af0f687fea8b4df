// What the tests over real servers have in common: the fabrics, a server and its clients, and a
// look at what they leave behind.

#ifndef INVOKER_TESTS_INTEGRATION_FABRIC_TEST_H_
#define INVOKER_TESTS_INTEGRATION_FABRIC_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "invoker/client.h"
#include "tests/integration/server_process.h"
#include "tests/transport/immediates.h"

namespace invoker {

struct FabricUnderTest {
  std::string provider;
  std::string notify;
};

// For the test's output.
inline void PrintTo(const FabricUnderTest& fabric, std::ostream* out) {
  *out << fabric.provider << " " << fabric.notify;
}

inline std::string FabricName(const testing::TestParamInfo<FabricUnderTest>& info) {
  std::string name = info.param.provider.substr(0, info.param.provider.find(';'));
  name[0] = absl::ascii_toupper(name[0]);
  return name + "_" + info.param.notify;
}

// The provider, or what stands for it, with write-with-immediate.
inline FabricUnderTest WithImmediates(const char* provider) {
  return {transport::WithImmediates(provider), "write_imm"};
}

// `fabrics`, or the one that INVOKER_TEST_FABRIC names, once with each of their notifications.
std::vector<FabricUnderTest> OrFromEnvironment(std::vector<FabricUnderTest> fabrics);

// Every provider with every notification.
inline auto AllFabrics() {
  return testing::ValuesIn(OrFromEnvironment({{"tcp;ofi_rxm", "auto"},
                                              WithImmediates("tcp;ofi_rxm"),
                                              {"tcp;ofi_rxm", "send_after_write"},
                                              {"shm", "auto"},
                                              {"shm", "write_imm"},
                                              {"shm", "send_after_write"}}));
}

// Where the notification plays no part.
inline auto BothProviders() {
  return testing::ValuesIn(OrFromEnvironment({{"tcp;ofi_rxm", "auto"}, {"shm", "auto"}}));
}

// Owns the servers. Clients belong to the test and are gone before TearDown, which stops every
// server in the regular way and finds nothing left: no process, no shared memory.
class ServerTest : public testing::Test {
 protected:
  // Fails the test and returns nullptr if it does not start.
  ServerProcess* StartServer(const ServerProcessOptions& options);
  void TearDown() override;

 private:
  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

class FabricTest : public ServerTest, public testing::WithParamInterface<FabricUnderTest> {
 protected:
  // With the test's fabric.
  ServerProcess* StartServer(ServerProcessOptions options = {});
  // With the test's notification. Fails the test and returns nullptr on an error.
  std::unique_ptr<Client> Connect(const ServerProcess* server, ClientOptions options = {});
};

// Like the servers' hot_timeout.
inline constexpr absl::Duration kClientHotTimeout = absl::Microseconds(50);

// Waits until the server's book has so many leases open, each a session's or the executors' of its
// own. False if that does not come, or the server does not answer.
bool AwaitOpenLeases(const ServerProcess* server, size_t leases);

// Waits until those that are open have been billed more than `before` calls in all. How many, or 0
// if none is open, or no more are made.
uint64_t AwaitMoreCalls(const ServerProcess* server, uint64_t before);

// A function that a test knows to be there.
RemoteFunction FunctionNamed(const Client& client, const std::string& name);

// A seed of its own for every run; printed, so that a failure can be repeated with
// INVOKER_TEST_SEED.
uint64_t TestSeed();

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_FABRIC_TEST_H_
