#include "src/launch/slurm_step.h"

#include <map>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace invoker::launch {
namespace {

absl::StatusOr<SlurmStep> Read(std::map<std::string, std::string> variables) {
  return ReadSlurmStep([variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

TEST(SlurmStep, SaysWhereATaskIs) {
  const absl::StatusOr<SlurmStep> step = Read({{"SLURM_JOB_ID", "42"},
                                               {"SLURM_STEP_ID", "1"},
                                               {"SLURM_PROCID", "3"},
                                               {"SLURM_LOCALID", "1"},
                                               {"SLURM_STEP_NUM_NODES", "2"},
                                               {"SLURMD_NODENAME", "n1"},
                                               {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
                                               {"SLURM_CPUS_ON_NODE", "8"},
                                               {"SLURM_MEM_PER_CPU", "100"}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->id, "42.1");
  EXPECT_FALSE(step->batch);
  EXPECT_EQ(step->rank, 3u);
  EXPECT_FALSE(step->first_on_node);
  EXPECT_EQ(step->nodes, 2u);
  EXPECT_EQ(step->node, "n1");
  EXPECT_EQ(step->launch_address, "10.0.0.1");
  EXPECT_EQ(step->cores, 8u);
  EXPECT_EQ(step->memory_bytes, uint64_t{800} << 20);
}

TEST(SlurmStep, AScriptsVariablesAreForItsTasks) {
  const absl::StatusOr<SlurmStep> step = Read({{"SLURM_JOB_ID", "42"},
                                               {"SLURM_PROCID", "0"},
                                               {"SLURM_NTASKS", "4"},
                                               {"SLURM_MEM_PER_NODE", "200"}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->batch);
  EXPECT_EQ(step->id, "42.batch");
  EXPECT_EQ(step->nodes, 1u);
  EXPECT_TRUE(step->first_on_node);
  EXPECT_EQ(step->memory_bytes, uint64_t{200} << 20);
}

TEST(SlurmStep, OutsideOfAJobThereIsNone) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Read({}).status()));
}

TEST(SlurmStep, NonsenseCountsAsNotTold) {
  const absl::StatusOr<SlurmStep> step =
      Read({{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_CPUS_ON_NODE", "many"}});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->cores, 0u);
  EXPECT_EQ(step->memory_bytes, 0u);
}

}  // namespace
}  // namespace invoker::launch
