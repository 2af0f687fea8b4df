// Bills of real servers: of leases with executors of their own and of clients that share the
// server's, as the closing event, the server itself, its file and another server's counters have
// them.

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "invoker/client.h"
#include "invoker/lease.h"
#include "nlohmann/json.hpp"
#include "src/accounting/usage_row.h"
#include "src/bootstrap/client/client.h"
#include "tests/integration/server_process.h"

namespace invoker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// Executors run as the tests do: another user's cannot be reached over shm.
std::string SameUser() {
  const passwd* user = getpwuid(geteuid());
  return absl::StrCat("--executor-user=", user != nullptr ? user->pw_name : "");
}

std::unique_ptr<ServerProcess> Start(const std::string& provider, std::vector<std::string> more) {
  more.push_back("--lease-cores=2");
  more.push_back("--lease-memory=512M");
  if (geteuid() == 0) more.push_back(SameUser());
  auto server = ServerProcess::Start({.provider = provider, .more = std::move(more)});
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

std::vector<bootstrap::UsageRecord> Records(const ServerProcess& server,
                                            const std::string& tenant) {
  auto client = bootstrap::BootstrapClient::Connect(server.address(), kPatience);
  EXPECT_TRUE(client.ok()) << client.status();
  auto records = (*client)->GetUsage(tenant, kPatience);
  EXPECT_TRUE(records.ok()) << records.status();
  return records.ok() ? *std::move(records) : std::vector<bootstrap::UsageRecord>();
}

bool WaitUntil(const std::function<bool()>& done) {
  const absl::Time limit = absl::Now() + kPatience;
  while (!done()) {
    if (absl::Now() > limit) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// So many calls by a lease of its own with so many executors; its bill.
ResourceUsage UseLease(const ServerProcess& server, const std::string& tenant, uint32_t executors,
                       uint64_t calls, size_t bytes) {
  LeaseOptions options;
  options.executors = executors;
  options.tenant = tenant;
  options.wait = kPatience;
  options.client.peer_timeout = absl::Seconds(5);
  auto lease = Lease::Acquire(server.address(), options);
  EXPECT_TRUE(lease.ok()) << lease.status();
  if (!lease.ok()) return {};
  auto echo = (*lease)->Function("test.echo");
  EXPECT_TRUE(echo.ok()) << echo.status();
  const std::string payload(bytes, 'x');
  for (uint64_t i = 0; i < calls; ++i) {
    const auto response = (*lease)->executor(i % executors).Invoke(*echo, payload);
    EXPECT_TRUE(response.ok()) << response.status();
  }
  auto end = (*lease)->Release();
  EXPECT_TRUE(end.ok()) << end.status();
  return end.ok() ? end->usage : ResourceUsage();
}

class ServersTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Providers, ServersTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const auto& info) { return info.param[0] == 's' ? "Shm" : "Tcp"; });

TEST_P(ServersTest, ALeasesBillIsExact) {
  auto server = Start(GetParam(), {});
  ASSERT_NE(server, nullptr);
  const absl::Time began = absl::Now();
  const ResourceUsage bill = UseLease(*server, "alice", 2, 30, 100);
  const absl::Duration wall = absl::Now() - began;
  EXPECT_EQ(bill.calls, 30u);
  EXPECT_EQ(bill.bytes_in, 3000u);
  EXPECT_EQ(bill.bytes_out, 3000u);
  EXPECT_GT(bill.function_time, absl::ZeroDuration());
  EXPECT_GT(bill.cpu_time, absl::ZeroDuration());
  EXPECT_GT(bill.lease_time, absl::ZeroDuration());
  EXPECT_LE(bill.lease_time, 2 * wall);
  EXPECT_LE(bill.function_time + bill.polling_time, bill.lease_time + absl::Microseconds(1));
  EXPECT_GT(bill.memory_byte_seconds, 0u);
  const auto records = Records(*server, "alice");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_FALSE(records[0].open);
  EXPECT_EQ(ToRow(records[0].usage), ToRow(bill));
  EXPECT_EQ(server->Stop(), 0) << server->log();
}

TEST_P(ServersTest, WhoSharesExecutorsHasABillToo) {
  auto server = Start(GetParam(), {});
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.peer_timeout = absl::Seconds(5);
  auto client = Client::Connect(server->address(), options);
  ASSERT_TRUE(client.ok()) << client.status();
  auto echo = (*client)->Function("test.echo");
  ASSERT_TRUE(echo.ok());
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE((*client)->Invoke(*echo, std::string(11, 'x')).ok());
  }
  ASSERT_TRUE(WaitUntil([&] {
    const auto records = Records(*server, "");
    return records.size() == 1 && records[0].open && records[0].usage.calls == 7;
  }));
  client->reset();
  ASSERT_TRUE(WaitUntil([&] {
    const auto records = Records(*server, "");
    return records.size() == 1 && !records[0].open;
  }));
  const bootstrap::UsageRecord sum = Records(*server, "").front();
  EXPECT_EQ(sum.usage.calls, 7u);
  EXPECT_EQ(sum.usage.bytes_in, 77u);
  EXPECT_EQ(sum.usage.lease_time, absl::ZeroDuration());
  EXPECT_EQ(server->Stop(), 0) << server->log();
}

TEST_P(ServersTest, AnotherServersCountersGetEverything) {
  auto there = Start(GetParam(), {"--usage-counters"});
  ASSERT_NE(there, nullptr);
  std::vector<std::unique_ptr<ServerProcess>> servers;
  for (int i = 0; i < 2; ++i) {
    servers.push_back(Start(GetParam(), {absl::StrCat("--usage-to=", there->address())}));
    ASSERT_NE(servers.back(), nullptr);
  }
  UsageRow expected = {};
  for (int round = 0; round < 3; ++round) {
    for (const auto& server : servers) {
      const UsageRow bill = ToRow(UseLease(*server, "alice", 1, 5, 10));
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += bill[i];
    }
  }
  EXPECT_EQ(expected[3], 2u * 3 * 5);
  EXPECT_TRUE(WaitUntil([&] {
    const auto records = Records(*there, "alice");
    return records.size() == 1 && records[0].contributed && records[0].usage.calls == expected[3];
  }));
  // The sums of microseconds are of times that are not rounded before they are summed.
  UsageRow sum = {};
  ASSERT_TRUE(WaitUntil([&] {
    sum = ToRow(Records(*there, "alice").front().usage);
    return sum[6] == expected[6] && sum[7] == expected[7] && sum[4] == expected[4];
  })) << testing::PrintToString(sum)
      << " " << testing::PrintToString(expected);
  EXPECT_GE(sum[0], expected[0]);
  EXPECT_LE(sum[0], expected[0] + 6);
  for (const auto& server : servers) EXPECT_EQ(server->Stop(), 0) << server->log();
  EXPECT_EQ(there->Stop(), 0) << there->log();
}

TEST_P(ServersTest, WhatIsLeftIsAddedWhenTheServerStops) {
  auto there = Start(GetParam(), {"--usage-counters"});
  ASSERT_NE(there, nullptr);
  auto here = Start(GetParam(), {absl::StrCat("--usage-to=", there->address())});
  ASSERT_NE(here, nullptr);
  UseLease(*here, "alice", 1, 5, 10);
  EXPECT_EQ(here->Stop(), 0) << here->log();
  EXPECT_TRUE(WaitUntil([&] {
    const auto records = Records(*there, "alice");
    return records.size() == 1 && records[0].usage.calls == 5;
  }));
  EXPECT_EQ(there->Stop(), 0) << there->log();
}

TEST_P(ServersTest, TheFileOutlivesTheServer) {
  const std::string path = absl::StrCat(testing::TempDir(), "/usage", getpid(), GetParam());
  for (uint64_t start = 1; start <= 2; ++start) {
    auto server = Start(GetParam(), {absl::StrCat("--usage-file=", path)});
    ASSERT_NE(server, nullptr);
    UseLease(*server, "alice", 1, 4, 10);
    const auto records = Records(*server, "alice");
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].usage.calls, 4 * start);
    EXPECT_EQ(server->Stop(), 0) << server->log();
  }
  std::ifstream file(path);
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    ++lines;
    const auto entry = nlohmann::json::parse(line);
    EXPECT_EQ(entry["tenant"], "alice");
    EXPECT_EQ(entry["calls"], 4);
  }
  EXPECT_EQ(lines, 2);
  EXPECT_EQ(remove(path.c_str()), 0);
}

TEST_P(ServersTest, WhatTheFileSaysIsNotAddedAgain) {
  const std::string path = absl::StrCat(testing::TempDir(), "/both", getpid(), GetParam());
  auto there = Start(GetParam(), {"--usage-counters"});
  ASSERT_NE(there, nullptr);
  for (uint64_t start = 1; start <= 3; ++start) {
    auto here = Start(GetParam(), {absl::StrCat("--usage-file=", path),
                                   absl::StrCat("--usage-to=", there->address())});
    ASSERT_NE(here, nullptr);
    UseLease(*here, "alice", 1, 4, 10);
    const auto records = Records(*here, "alice");
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].usage.calls, 4 * start);
    // Which adds what is left.
    EXPECT_EQ(here->Stop(), 0) << here->log();
    uint64_t calls = 0;
    EXPECT_TRUE(WaitUntil([&] {
      const auto added = Records(*there, "alice");
      calls = added.size() == 1 ? added[0].usage.calls : 0;
      return calls >= 4 * start;
    }));
    EXPECT_EQ(calls, 4 * start);
  }
  EXPECT_EQ(there->Stop(), 0) << there->log();
  EXPECT_EQ(remove(path.c_str()), 0);
}

TEST(ServersErrors, AnAddressThatIsNoneIsABadArgument) {
  auto command = ServerCommand({.provider = "tcp;ofi_rxm", .more = {"--usage-to=nowhere"}});
  const Finished finished = RunToEnd({.command = command});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.errors, testing::HasSubstr("nowhere"));
}

}  // namespace
}  // namespace invoker
