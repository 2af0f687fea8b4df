// What a service manager hears of invoker_server.

#include "tools/service_manager.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/unique_fd.h"
#include "tests/integration/server_process.h"

namespace invoker::tools {
namespace {

// The other end of NOTIFY_SOCKET.
class Manager {
 public:
  explicit Manager(std::string name) : name_(std::move(name)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    if (name_[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  }
  ~Manager() {
    if (name_[0] == '/') unlink(name_.c_str());
  }

  const std::string& name() const { return name_; }
  // Waits for it.
  std::string NextMessage() {
    char text[100];
    const ssize_t size = recv(socket_.get(), text, sizeof(text), 0);
    return size < 0 ? "nothing" : std::string(text, static_cast<size_t>(size));
  }

 private:
  std::string name_;
  UniqueFd socket_{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

std::string AbstractName() { return absl::StrCat("@invoker-service-manager-test-", getpid()); }

TEST(ServiceManagerTest, TellsEachState) {
  for (const std::string& name : {AbstractName(), absl::StrCat("/tmp/invoker-test-", getpid())}) {
    Manager manager(name);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ServiceManager service;
    EXPECT_EQ(getenv("NOTIFY_SOCKET"), nullptr) << "for the programs that are started";
    service.Ready();
    EXPECT_EQ(manager.NextMessage(), "READY=1");
    service.Alive();
    EXPECT_EQ(manager.NextMessage(), "WATCHDOG=1");
    service.Stopping();
    EXPECT_EQ(manager.NextMessage(), "STOPPING=1");
  }
}

TEST(ServiceManagerTest, IsWatchedOnlyIfItIsMeant) {
  const auto period = [](absl::string_view microseconds, absl::string_view process) {
    setenv("NOTIFY_SOCKET", "@nobody", 1);
    setenv("WATCHDOG_USEC", std::string(microseconds).c_str(), 1);
    if (!process.empty()) setenv("WATCHDOG_PID", std::string(process).c_str(), 1);
    return ServiceManager().alive_period();
  };
  EXPECT_EQ(period("3000000", ""), absl::Milliseconds(1500));
  EXPECT_EQ(period("3000000", absl::StrCat(getpid())), absl::Milliseconds(1500));
  EXPECT_EQ(period("3000000", "1"), absl::InfiniteDuration());
  EXPECT_EQ(period("0", ""), absl::InfiniteDuration());
  EXPECT_EQ(period("soon", ""), absl::InfiniteDuration());
  unsetenv("NOTIFY_SOCKET");
  EXPECT_EQ(ServiceManager().alive_period(), absl::InfiniteDuration());
}

TEST(ServiceManagerTest, NobodyListens) {
  for (const std::string name : {"", "@nobody", "/nonexistent/socket", "relative"}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ServiceManager().Ready();
  }
  setenv("NOTIFY_SOCKET", std::string(200, 'x').c_str(), 1);
  ServiceManager().Ready();
}

TEST(ServiceManagerTest, TheServerIsReadyAliveAndStops) {
  Manager manager(AbstractName());
  ServerProcessOptions options;
  options.provider = "tcp;ofi_rxm";
  options.environment = {"NOTIFY_SOCKET=" + manager.name(), "WATCHDOG_USEC=100000"};
  auto server = ServerProcess::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(manager.NextMessage(), "READY=1");
  EXPECT_EQ(manager.NextMessage(), "WATCHDOG=1");
  EXPECT_EQ(manager.NextMessage(), "WATCHDOG=1");
  ASSERT_EQ(kill((*server)->pid(), SIGTERM), 0);
  std::string message = manager.NextMessage();
  while (message == "WATCHDOG=1") message = manager.NextMessage();
  EXPECT_EQ(message, "STOPPING=1");
  EXPECT_EQ((*server)->Stop(), 0);
}

}  // namespace
}  // namespace invoker::tools
