// Groups of workers that go, for tests over real servers.

#ifndef INVOKER_TESTS_INTEGRATION_GROUP_TEST_H_
#define INVOKER_TESTS_INTEGRATION_GROUP_TEST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "invoker/client_group.h"
#include "tests/integration/fabric_test.h"

namespace invoker {

class GroupTest : public FabricTest {
 protected:
  std::unique_ptr<ClientGroup> Group(const std::vector<std::string>& servers,
                                     bool reconnect = true) {
    ClientOptions options;
    options.hot_timeout = kClientHotTimeout;
    // A machine that has much to do may keep a worker from answering for longer than the default.
    options.peer_timeout = absl::Seconds(5);
    options.reconnect = reconnect;
    absl::StatusOr<std::unique_ptr<ClientGroup>> group =
        ClientGroup::Connect(absl::StrJoin(servers, ","), options);
    if (!group.ok()) {
      ADD_FAILURE() << group.status();
      return nullptr;
    }
    return *std::move(group);
  }

  // One that will be started again. Its fabric's endpoints are at the same address.
  ServerProcess* StartToReturn() {
    return StartAgain(absl::StrCat(LoopbackAddressOfItsOwn(), ":0"));
  }
  ServerProcess* StartAgain(const std::string& address) {
    ServerProcessOptions options;
    options.listen = address;
    return StartServer(options);
  }

  // Until all of its executors are there. False if that does not come about.
  static bool AwaitAll(const ClientGroup& group) {
    const absl::Time limit = absl::Now() + kPatience;
    while (group.left() < group.size() && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return group.left() == group.size();
  }
  static bool AwaitCall(ClientGroup& group, const GroupFunction& function) {
    const absl::Time limit = absl::Now() + kPatience;
    while (absl::Now() < limit) {
      if (group.Invoke(function, "back?").ok()) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }
  static bool AwaitLeft(const ClientGroup& group, size_t left) {
    const absl::Time limit = absl::Now() + kPatience;
    while (group.left() != left && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(5));
    return group.left() == left;
  }
};

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_GROUP_TEST_H_
