#include "src/isolation/sandbox/sandbox.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace invoker {
namespace {

using testing::Contains;
using testing::Not;

// The three words in front of a place.
std::vector<std::string> Before(const std::vector<std::string>& command, const std::string& place) {
  const auto found = std::find(command.begin(), command.end(), place);
  return found == command.end() || found - command.begin() < 3
             ? std::vector<std::string>()
             : std::vector<std::string>(found - 3, found);
}

TEST(Sandbox, FilesInMemoryHaveALimit) {
  const std::string size = std::to_string(kSandboxFileBytes);
  const std::vector<std::string> command = SandboxCommand({}, {"/bin/true"});
  EXPECT_THAT(Before(command, "/tmp"), testing::ElementsAre("--size", size, "--tmpfs"));
  EXPECT_THAT(Before(command, "/dev/shm"), testing::ElementsAre("--size", size, "--tmpfs"));
  EXPECT_EQ(command.back(), "/bin/true");
}

TEST(Sandbox, SharedMemoryIsTheMachinesOnlyForPeersOnIt) {
  SandboxNeeds needs;
  EXPECT_THAT(SandboxCommand(needs, {"x"}), Contains("--unshare-ipc"));
  EXPECT_THAT(SandboxCommand(needs, {"x"}), Not(Contains("--bind")));
  needs.shared_memory = true;
  EXPECT_THAT(SandboxCommand(needs, {"x"}), Not(Contains("--unshare-ipc")));
  EXPECT_THAT(SandboxCommand(needs, {"x"}), Contains("--bind"));
}

TEST(Sandbox, TheNetworkIsThereOnlyForPeersElsewhere) {
  SandboxNeeds needs;
  EXPECT_THAT(SandboxCommand(needs, {"x"}), Contains("--unshare-net"));
  needs.network = true;
  EXPECT_THAT(SandboxCommand(needs, {"x"}), Not(Contains("--unshare-net")));
}

}  // namespace
}  // namespace invoker
