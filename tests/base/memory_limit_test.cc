#include "src/base/memory_limit.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

class MemoryLimitTest : public testing::Test {
 protected:
  void Limit(const std::string& group, const std::string& name, const std::string& limit) {
    std::filesystem::create_directories(place_ + group);
    std::ofstream(place_ + group + "/" + name) << limit << "\n";
  }
  void SetUp() override { std::filesystem::remove_all(place_); }

  const std::string place_ = testing::TempDir() + "/memory_limit_test/groups";
  const std::string one_ =
      absl::StrCat("30 23 0:26 / /elsewhere rw - cgroup cgroup rw,cpuset\n", "31 23 0:27 / ",
                   place_, " rw,relatime shared:9 - cgroup cgroup rw,memory\n");
  const std::string two_ = absl::StrCat("31 23 0:27 / ", place_, " rw - cgroup2 cgroup2 rw\n");
};

TEST_F(MemoryLimitTest, IsTheLeastOfTheGroupAndThoseAboveItInVersionOne) {
  Limit("", "memory.limit_in_bytes", "9223372036854771712");
  Limit("/job", "memory.limit_in_bytes", "3000");
  Limit("/job/step", "memory.limit_in_bytes", "2000");
  Limit("/job/step/task", "memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(MemoryLimit("5:devices:/\n4:cpu,memory:/job/step/task\n0::/\n", one_), 2000u);
  EXPECT_EQ(MemoryLimit("4:memory:/job\n", one_), 3000u);
  EXPECT_EQ(MemoryLimit("4:memory:/\n", one_), 0u);
}

TEST_F(MemoryLimitTest, GroupsWithoutTheControllerAreLeftOut) {
  Limit("/job", "memory.max", "3000");
  std::filesystem::create_directories(place_ + "/job/task");
  EXPECT_EQ(MemoryLimit("0::/job/task\n", two_), 3000u);
}

TEST_F(MemoryLimitTest, IsTheLeastOfTheGroupAndThoseAboveItInVersionTwo) {
  Limit("/job", "memory.max", "3000");
  Limit("/job/task", "memory.max", "max");
  EXPECT_EQ(MemoryLimit("0::/job/task\n", two_), 3000u);
  // The root has no such file.
  EXPECT_EQ(MemoryLimit("0::/\n", two_), 0u);
}

TEST_F(MemoryLimitTest, FindsTheGroupWhereAPartIsMounted) {
  Limit("/task", "memory.max", "4000");
  const std::string part = absl::StrCat("31 23 0:27 /box ", place_, " rw - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(MemoryLimit("0::/box/task\n", part), 4000u);
  EXPECT_EQ(MemoryLimit("0::/other/task\n", part), 0u);
}

TEST_F(MemoryLimitTest, WithoutGroupsThereIsNone) {
  EXPECT_EQ(MemoryLimit("", ""), 0u);
  EXPECT_EQ(MemoryLimit("nonsense\n4:memory:/job\n0::/job\n", "nonsense\n\n"), 0u);
}

}  // namespace
}  // namespace invoker
