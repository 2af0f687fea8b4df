#include "tools/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace invoker::tools {
namespace {

using ::testing::HasSubstr;

// What the server would do with these arguments.
absl::StatusOr<ServerSettings> Parsed(std::vector<std::string> arguments) {
  CLI::App app("", "invoker_server");
  ServerSettings settings;
  ServerFlags flags;
  AddServerOptions(&app, &settings, &flags);
  // CLI11 takes them from the back.
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  if (absl::Status status = Settle(app, flags, &settings); !status.ok()) return status;
  return settings;
}

std::string Error(const std::vector<std::string>& arguments) {
  const absl::Status status = Parsed(arguments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ServerOptionsTest, WithoutFlagsTheMachineIsLeasedAndNothingIsStartedForIt) {
  const auto settings = Parsed({});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_GT(settings->policy.total.cores, 0u);
  EXPECT_GT(settings->policy.total.memory_bytes, 0u);
  EXPECT_EQ(settings->policy.executor_memory_bytes,
            settings->policy.total.memory_bytes / settings->policy.total.cores);
  EXPECT_EQ(settings->spawner.prestart, 0u);
  EXPECT_FALSE(settings->leases_asked_for);
  EXPECT_FALSE(settings->policy.python);
  EXPECT_EQ(settings->upload, UploadPolicy::kNone);
  EXPECT_EQ(settings->worker.executor.hot_timeout, absl::InfiniteDuration());
  EXPECT_EQ(settings->worker.bulk_bytes, uint64_t{1} << 30);
}

TEST(ServerOptionsTest, MemoryForLargePayloadsIsASize) {
  const auto settings = Parsed({"--bulk-memory=64M"});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->worker.bulk_bytes, uint64_t{64} << 20);
}

TEST(ServerOptionsTest, PollingIsOneOfThree) {
  const auto hot_timeout = [](const std::vector<std::string>& arguments) {
    const auto settings = Parsed(arguments);
    EXPECT_TRUE(settings.ok()) << settings.status();
    if (!settings.ok()) return absl::Seconds(-1);
    EXPECT_EQ(settings->policy.hot_timeout, settings->worker.executor.hot_timeout);
    return settings->policy.hot_timeout;
  };
  EXPECT_EQ(hot_timeout({"--polling=hot"}), absl::InfiniteDuration());
  EXPECT_EQ(hot_timeout({"--polling=warm"}), absl::ZeroDuration());
  EXPECT_EQ(hot_timeout({"--polling=adaptive", "--hot-timeout=3ms"}), absl::Milliseconds(3));
  EXPECT_EQ(hot_timeout({"--hot-timeout=3ms"}), absl::Milliseconds(3));
  const absl::Duration adaptive = hot_timeout({"--polling=adaptive"});
  EXPECT_GT(adaptive, absl::ZeroDuration());
  EXPECT_LT(adaptive, absl::InfiniteDuration());
  EXPECT_THAT(Error({"--polling=warm", "--hot-timeout=3ms"}), HasSubstr("--polling=warm"));
  EXPECT_THAT(Error({"--polling=hot", "--hot-timeout=3ms"}), HasSubstr("--polling=hot"));
}

TEST(ServerOptionsTest, LeasesThatAreAskedForAreTold) {
  for (const char* flag : {"--lease-cores=2", "--lease-memory=1G", "--prestart=1",
                           "--python=/usr/bin/python3", "--sandbox=bwrap", "--allow-upload=all"}) {
    const auto settings = Parsed({flag});
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_TRUE(settings->leases_asked_for) << flag;
  }
  EXPECT_EQ(Parsed({"--lease-cores=0"})->policy.total.cores, 0u);
}

TEST(ServerOptionsTest, WhatContradictsItselfIsRefused) {
  EXPECT_THAT(Error({"--lease-cores=0", "--prestart=1"}), HasSubstr("--prestart"));
  EXPECT_THAT(Error({"--lease-cores=0", "--allow-upload=all"}), HasSubstr("--allow-upload"));
  EXPECT_THAT(Error({"--lease-cores=2", "--prestart=3"}), HasSubstr("--lease-cores is 2"));
  EXPECT_THAT(Error({"--lease-cores=2", "--prestart-python=1"}), HasSubstr("--python=PATH"));
  EXPECT_THAT(Error({"--lease-memory=1M", "--executor-memory=2M"}),
              HasSubstr("no more than --lease-memory"));
  EXPECT_THAT(Error({"--upload-cache=/tmp/x"}), HasSubstr("--allow-upload"));
  EXPECT_THAT(Error({"--max-ttl=0"}), HasSubstr("--max-ttl"));
}

}  // namespace
}  // namespace invoker::tools
