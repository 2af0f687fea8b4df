// Whole calls on the fabric under test: real server processes, and clients in this process and in
// others.

#ifndef INVOKER_TESTS_CONFORMANCE_CALLS_SUITE_H_
#define INVOKER_TESTS_CONFORMANCE_CALLS_SUITE_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/tested_fabric.h"
#include "tests/integration/fabric_test.h"

namespace invoker::conformance {

inline constexpr char kClientFlag[] = "--client";
inline constexpr char kHolderFlag[] = "--hold";

// What main() does in a client's process: kClientFlag SERVER NOTIFY SEED CALLS LIMIT makes so many
// random calls of up to LIMIT bytes and checks every answer. The exit status is 0 if all were
// right.
int RunClient(int argc, char** argv);

// The same: kHolderFlag SERVER NOTIFY EXECUTORS takes a lease, calls each executor, says "held" and
// holds it until it is killed. Returns only if that fails.
int RunHolder(int argc, char** argv);

// For a session on the suite's fabric with that notification.
ClientOptions OnTestedFabric(const std::string& notify, ClientOptions options = {});

// What the --notify flag knows.
inline std::vector<std::string> EveryNotification() {
  return {"auto", "write_imm", "send_after_write"};
}

// The parameter is the notification; skipped where the fabric does not have it.
class CallsSuite : public ServerTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override;

  // With the suite's fabric and the test's notification.
  ServerProcess* StartServer(ServerProcessOptions options = {});
  // Fails the test and returns nullptr on an error.
  std::unique_ptr<Client> Connect(const ServerProcess* server, ClientOptions options = {});
  // A client in a process of its own. Fails the test and returns nullptr on an error.
  std::unique_ptr<ChildProcess> StartClient(const ServerProcess* server, uint64_t seed, int calls,
                                            uint64_t limit);
  // A process that holds a lease (RunHolder). The same.
  std::unique_ptr<ChildProcess> StartHolder(const ServerProcess* server, uint32_t executors);
};

inline std::string NameOfNotification(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace invoker::conformance

#endif  // INVOKER_TESTS_CONFORMANCE_CALLS_SUITE_H_
