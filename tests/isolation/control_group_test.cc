// Limits by the kernel's groups: what is asked of the kernel, on a directory tree that is only like
// it; and, where there are groups, that the kernel does it.

#include "src/isolation/limits/control_group.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/own_control_group.h"
#include "src/isolation/limits/control_group_place.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "tests/isolation/isolated_server.h"

namespace invoker {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr pid_t kServer = 77;
constexpr char kMounts[] =
    "24 1 0:22 / / rw - ext4 /dev/sda rw\n"
    "31 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Fills a new group's directory, and removes one with its files, as the kernel does.
class FakeKernel final : public GroupFiles {
 public:
  // Every write to a new group's cgroup.procs does.
  static inline bool join_fails = false;

  explicit FakeKernel(std::string root) : GroupFiles(std::move(root)) {}

  absl::Status Make(const std::string& directory) const override {
    if (absl::Status status = GroupFiles::Make(directory); !status.ok()) return status;
    for (const char* name : {"cgroup.procs", "cgroup.subtree_control", "cgroup.kill", "memory.max",
                             "memory.swap.max", "memory.oom.group", "pids.max"}) {
      Put(absl::StrCat(At(directory), "/", name), "");
    }
    if (join_fails) {
      std::filesystem::remove(At(directory) + "/cgroup.procs");
      std::filesystem::create_symlink("/dev/full", At(directory) + "/cgroup.procs");
    }
    Put(At(directory) + "/memory.current", "1000\n");
    Put(At(directory) + "/cpu.stat", "usage_usec 0\n");
    Put(At(directory) + "/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n");
    Put(At(directory) + "/cgroup.events", "populated 0\nfrozen 0\n");
    return absl::OkStatus();
  }
  // Like a group that is not the first of all: one with processes has no limited ones beneath it.
  absl::Status Write(const std::string& path, absl::string_view text) const override {
    const std::string group = path.substr(0, path.rfind('/'));
    if (absl::EndsWith(path, "/worker/cgroup.subtree_control") &&
        !TextOf(At(group) + "/cgroup.procs").empty()) {
      return absl::UnavailableError("busy");
    }
    if (absl::EndsWith(path, "/server/cgroup.procs")) {
      const std::string from = At(group.substr(0, group.rfind("/invoker-"))) + "/cgroup.procs";
      Put(from, absl::StrReplaceAll(TextOf(from), {{absl::StrCat(text, "\n"), ""}}));
    }
    return GroupFiles::Write(path, text);
  }
  absl::Status Remove(const std::string& directory) const override {
    if (absl::StrContains(TextOf(At(directory) + "/cgroup.events"), "populated 1")) {
      return absl::UnavailableError("busy");
    }
    std::filesystem::remove_all(At(directory));
    return absl::OkStatus();
  }
};

class ControlGroupTest : public testing::Test {
 protected:
  ControlGroupTest() {
    std::string name = absl::StrCat(testing::TempDir(), "/groups.XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(root_ + "/proc/self");
    std::filesystem::create_directories(group());
    Put(root_ + "/proc/self/cgroup", "0::/worker\n");
    Put(root_ + "/proc/self/mountinfo", kMounts);
    Put(group() + "/cgroup.controllers", "cpu memory pids\n");
    Put(group() + "/cgroup.subtree_control", "memory pids\n");
    Put(group() + "/cgroup.procs", "");
  }
  ~ControlGroupTest() override { std::filesystem::remove_all(root_); }

  std::string group() const { return root_ + "/sys/fs/cgroup/worker"; }
  std::string own() const { return group() + "/invoker-77"; }
  absl::StatusOr<std::unique_ptr<ControlGroups>> Start() {
    return ControlGroups::Start(std::make_unique<FakeKernel>(root_), kServer);
  }

  std::string root_;
};

TEST_F(ControlGroupTest, EachExecutorHasAGroupWithLimits) {
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(TextOf(own() + "/cgroup.subtree_control"), "+memory +pids");
  {
    auto group = (*groups)->Add(5);
    ASSERT_TRUE(group.ok()) << group.status();
    const std::string place = own() + "/executor-5";
    EXPECT_EQ(TextOf(place + "/memory.oom.group"), "1");
    EXPECT_EQ(TextOf(place + "/memory.swap.max"), "0");
    EXPECT_EQ(TextOf(place + "/pids.max"), "1024");
    EXPECT_EQ(TextOf(place + "/memory.max"), "");
    ASSERT_TRUE((*group)->LimitMemory(500).ok());
    EXPECT_EQ(TextOf(place + "/memory.max"), "1500");
    Put(place + "/cpu.stat", "usage_usec 1500\nuser_usec 1000\n");
    EXPECT_EQ((*group)->CpuTime(), absl::Microseconds(1500));
    auto processes = (*group)->OpenProcesses();
    ASSERT_TRUE(processes.ok()) << processes.status();
    ASSERT_EQ(write(processes->get(), "0", 1), 1);
    EXPECT_EQ(TextOf(place + "/cgroup.procs"), "0");
  }
  EXPECT_FALSE(std::filesystem::exists(own() + "/executor-5"));
  groups->reset();
  EXPECT_FALSE(std::filesystem::exists(own()));
  // It was so before, and stays so.
  EXPECT_EQ(TextOf(group() + "/cgroup.subtree_control"), "memory pids\n");
}

// In a container each server has the number of the one before, which may have been killed together
// with the process that removes its groups.
TEST_F(ControlGroupTest, GroupsThatAServerOfThatNumberHasLeftAreReplaced) {
  const FakeKernel kernel(root_);
  const std::string left = "/sys/fs/cgroup/worker/invoker-77";
  for (const char* group : {"", "/executor-0", "/executor-9", "/server"}) {
    ASSERT_TRUE(kernel.Make(left + group).ok());
  }
  {
    auto groups = Start();
    ASSERT_TRUE(groups.ok()) << groups.status();
    EXPECT_TRUE((*groups)->limits_memory());
    EXPECT_FALSE(std::filesystem::exists(own() + "/executor-9"));
    EXPECT_TRUE((*groups)->Add(9).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(own()));
  // Nothing is touched of a server that lives, which has this number elsewhere.
  for (const char* group : {"", "/executor-9"}) {
    ASSERT_TRUE(kernel.Make(left + group).ok());
    Put(absl::StrCat(own(), group, "/cgroup.events"), "populated 1\n");
  }
  const absl::Status status = Start().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("processes are in it"));
  EXPECT_EQ(TextOf(own() + "/executor-9/cgroup.kill"), "");
}

TEST_F(ControlGroupTest, OnlyAKillOfTheKernelsIsOne) {
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  auto group = (*groups)->Add(1);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_FALSE((*group)->KilledForMemory());
  const std::string events = own() + "/executor-1/memory.events";
  Put(events, "max 12\noom 3\noom_kill 0\noom_group_kill 0\n");
  EXPECT_FALSE((*group)->KilledForMemory());
  Put(events, "max 12\noom 3\noom_kill 2\noom_group_kill 1\n");
  EXPECT_TRUE((*group)->KilledForMemory());
}

TEST_F(ControlGroupTest, AGroupThatIsNotEmptyYetIsRemovedLater) {
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  auto group = (*groups)->Add(1);
  ASSERT_TRUE(group.ok()) << group.status();
  const std::string place = own() + "/executor-1";
  Put(place + "/cgroup.events", "populated 1\n");
  group->reset();
  EXPECT_EQ(TextOf(place + "/cgroup.kill"), "1");
  Put(place + "/cgroup.events", "populated 0\n");
  ASSERT_TRUE((*groups)->Add(2).ok());
  EXPECT_FALSE(std::filesystem::exists(place));
}

TEST_F(ControlGroupTest, ControllersThatAreNotEnabledAreForAsLong) {
  Put(group() + "/cgroup.subtree_control", "");
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(TextOf(group() + "/cgroup.subtree_control"), "+memory +pids");
  groups->reset();
  EXPECT_EQ(TextOf(group() + "/cgroup.subtree_control"), "-memory -pids");
}

TEST_F(ControlGroupTest, AServerThatIsAloneMovesOutOfTheWay) {
  Put(group() + "/cgroup.subtree_control", "");
  Put(group() + "/cgroup.procs", "77\n");
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_TRUE((*groups)->limits_memory());
  EXPECT_EQ(TextOf(group() + "/cgroup.procs"), "");
  EXPECT_EQ(TextOf(own() + "/server/cgroup.procs"), "77");
  groups->reset();
  EXPECT_EQ(TextOf(group() + "/cgroup.procs"), "77");
  EXPECT_FALSE(std::filesystem::exists(own()));
}

TEST_F(ControlGroupTest, BesideOthersThereAreGroupsWithoutLimits) {
  Put(group() + "/cgroup.subtree_control", "");
  Put(group() + "/cgroup.procs", "77\n78\n");
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_FALSE((*groups)->limits_memory());
  EXPECT_FALSE((*groups)->limits_processes());
  EXPECT_THAT((*groups)->why_not(), HasSubstr("other processes than the server"));
  EXPECT_EQ(TextOf(group() + "/cgroup.procs"), "77\n78\n");
  EXPECT_TRUE((*groups)->Add(1).ok());
  groups->reset();
  EXPECT_EQ(TextOf(group() + "/cgroup.subtree_control"), "");
}

TEST_F(ControlGroupTest, WithoutControllersGroupsCountAndEndStill) {
  Put(group() + "/cgroup.controllers", "\n");
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_FALSE((*groups)->limits_memory());
  EXPECT_THAT((*groups)->why_not(), HasSubstr("no controller memory"));
  EXPECT_EQ(TextOf(own() + "/cgroup.subtree_control"), "");
  auto group = (*groups)->Add(1);
  ASSERT_TRUE(group.ok()) << group.status();
  const std::string place = own() + "/executor-1";
  EXPECT_EQ(TextOf(place + "/memory.oom.group"), "");
  Put(place + "/cgroup.events", "populated 1\n");
  group->reset();
  EXPECT_EQ(TextOf(place + "/cgroup.kill"), "1");
  Put(place + "/cgroup.events", "populated 0\n");
}

TEST_F(ControlGroupTest, WhoOutlivesAServerRemovesItsGroups) {
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  // Without files in it, as directories of the kernel's can be removed.
  std::filesystem::create_directories(root_ + "/left/executor-1");
  std::filesystem::create_directories(root_ + "/left/executor-2");
  RemoveEmptyGroups(root_ + "/left");
  EXPECT_FALSE(std::filesystem::exists(root_ + "/left"));
  std::filesystem::create_directories(root_ + "/used/executor-1");
  Put(root_ + "/used/executor-1/cgroup.procs", "");
  RemoveEmptyGroups(root_ + "/used");
  EXPECT_TRUE(std::filesystem::exists(root_ + "/used/executor-1"));
}

TEST_F(ControlGroupTest, WithoutThePidsControllerMemoryIsLimitedStill) {
  Put(group() + "/cgroup.controllers", "memory\n");
  auto groups = Start();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_FALSE((*groups)->limits_processes());
  EXPECT_EQ(TextOf(own() + "/cgroup.subtree_control"), "+memory");
  auto group = (*groups)->Add(1);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(TextOf(own() + "/executor-1/pids.max"), "");
}

TEST_F(ControlGroupTest, GroupsThatCannotBeJoinedAreNotUsed) {
  const std::string full = "/dev/full";
  if (access(full.c_str(), W_OK) != 0) GTEST_SKIP() << "no " << full;
  FakeKernel::join_fails = true;
  const absl::Status status = Start().status();
  FakeKernel::join_fails = false;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("move a process to"));
  EXPECT_FALSE(std::filesystem::exists(own()));
}

TEST_F(ControlGroupTest, ReasonsAreSaid) {
  std::filesystem::remove_all(group());
  EXPECT_EQ(Start().status().code(), absl::StatusCode::kFailedPrecondition);
  Put(root_ + "/proc/self/mountinfo", "24 1 0:22 / / rw - ext4 /dev/sda rw\n");
  EXPECT_THAT(std::string(Start().status().message()), HasSubstr("/worker"));
  Put(root_ + "/proc/self/cgroup", "4:memory:/worker\n");
  EXPECT_THAT(std::string(Start().status().message()), HasSubstr("version 2"));
}

TEST(ControlGroupPlace, FollowsWhatIsMounted) {
  EXPECT_EQ(*FindOwnGroup("1:cpu:/x\n0::/a/b\n", kMounts), "/sys/fs/cgroup/a/b");
  EXPECT_EQ(*FindOwnGroup("0::/\n", kMounts), "/sys/fs/cgroup");
  const char part[] = "31 24 0:26 /a /my\\040groups rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(*FindOwnGroup("0::/a/b\n", part), "/my groups/b");
  EXPECT_EQ(*FindOwnGroup("0::/a\n", part), "/my groups");
  EXPECT_FALSE(FindOwnGroup("0::/ab\n", part).ok());
  EXPECT_FALSE(FindOwnGroup("", kMounts).ok());
  EXPECT_FALSE(FindOwnGroup("0::/a\n", "no such table\n\n").ok());
}

TEST(ControlGroupKernel, AnExecutorAndWhatItStartsHaveOneLimit) {
  std::string directory;
  {
    auto groups = ControlGroups::Start(std::make_unique<GroupFiles>(), getpid());
    if (!groups.ok()) GTEST_SKIP() << "no groups of the kernel's here: " << groups.status();
    if (!(*groups)->limits_memory()) GTEST_SKIP() << (*groups)->why_not();
    directory = (*groups)->directory();
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
  const SpawnerOptions options = TestSpawnerOptions();
  auto spawner = ExecutorSpawner::Start(options);
  ASSERT_TRUE(spawner.ok()) << spawner.status();
  EXPECT_THAT((*spawner)->Notes(), Contains(HasSubstr("limited by cgroups")));
  if (UnderSanitizer()) GTEST_SKIP() << "limits of memory";
  ExecutorTerms terms;
  terms.memory_bytes = 64 << 20;
  for (const char* function : {"bad.leak", "bad.leak_in_children"}) {
    WatchedExecutor executor(spawner->get(), terms);
    ASSERT_TRUE(executor.ok());
    IsolatedServer server(&executor.process(), options);
    auto client = server.Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    Future call = (*client)->InvokeAsync(*(*client)->Function(function), "");
    const ExecutorEnd end = executor.WaitForEnd();
    EXPECT_EQ(end.cause, LeaseEndCause::kMemoryLimit) << end.reason;
    EXPECT_THAT(end.reason, HasSubstr(absl::StrCat("in function \"", function, "\"")));
    (*client)->Close();
  }
  spawner->reset();
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(ControlGroupKernel, NotesSayWhichLimitIsInForce) {
  auto spawner = ExecutorSpawner::Start(TestSpawnerOptions());
  ASSERT_TRUE(spawner.ok()) << spawner.status();
  EXPECT_THAT((*spawner)->Notes(),
              Contains(testing::AnyOf(HasSubstr("limited by cgroups"), HasSubstr("RLIMIT_AS"))));
}

}  // namespace
}  // namespace invoker
