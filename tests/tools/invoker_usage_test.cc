// `invoker usage` as a shell user sees it.

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "src/accounting/accounting_service.h"
#include "src/bootstrap/service/server.h"
#include "tests/accounting/billed_host.h"
#include "tests/integration/child_process.h"

namespace invoker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class InvokerUsageTest : public testing::Test {
 protected:
  void SetUp() override {
    bootstrap::ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.services.push_back(MakeAccountingService(nullptr));
    auto server = bootstrap::Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const bootstrap::UsageRecord open = SampleRecord();
    bootstrap::UsageRecord shared = open;
    shared.lease = 13;
    shared.executors = 0;
    bootstrap::UsageRecord ended = open;
    ended.open = false;
    ended.lease = 0;
    bootstrap::UsageRecord elsewhere = ended;
    elsewhere.contributed = true;
    elsewhere.tenant = "";
    host_.set_records({open, shared, ended, elsewhere});
  }

  Finished Run(std::vector<std::string> arguments) {
    std::vector<std::string> command = {"tools/invoker", "usage",
                                        absl::StrCat("--server=", server_->listen_address())};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunToEnd({.command = command});
  }

  static std::vector<std::string> Words(const std::string& line) {
    return absl::StrSplit(line, ' ', absl::SkipEmpty());
  }

  BilledHost host_;
  std::unique_ptr<bootstrap::Server> server_;
};

TEST_F(InvokerUsageTest, ATableHasALineForEachRecord) {
  const Finished finished = Run({});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  const std::vector<std::string> lines = absl::StrSplit(finished.output, '\n');
  ASSERT_EQ(lines.size(), 6u) << finished.output;
  EXPECT_THAT(lines[0], StartsWith("LEASE"));
  for (const std::string& line : {lines[1], lines[2], lines[3], lines[4]}) {
    EXPECT_EQ(line.size(), lines[0].size()) << finished.output;
  }
  EXPECT_EQ(Words(lines[1]),
            (std::vector<std::string>{"12", "alice", "3", "1.500s", "2.000s", "8589934592.000",
                                      "40000", "0.005s", "0.600s", "7", "5242880"}));
  EXPECT_EQ(Words(lines[2])[0], "13");
  EXPECT_EQ(Words(lines[2])[2], "shared");
  EXPECT_EQ(Words(lines[3])[0], "ended");
  EXPECT_EQ(Words(lines[3])[1], "alice");
  EXPECT_EQ(Words(lines[4])[0], "elsewhere");
  EXPECT_EQ(Words(lines[4])[1], "-");
  EXPECT_EQ(host_.TakeAskedFor(), "");
}

TEST_F(InvokerUsageTest, JsonIsOneLineWithEveryField) {
  const Finished finished = Run({"--json"});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_EQ(finished.output.find('\n') + 1, finished.output.size());
  const auto json = nlohmann::json::parse(finished.output);
  EXPECT_EQ(json["server"], server_->listen_address());
  ASSERT_EQ(json["usage"].size(), 4u);
  const auto& open = json["usage"][0];
  EXPECT_EQ(open["kind"], "open");
  EXPECT_EQ(open["lease"], 12);
  EXPECT_EQ(open["executors"], 3);
  EXPECT_EQ(open["tenant"], "alice");
  EXPECT_EQ(open["lease_us"], 1'500'000);
  EXPECT_EQ(open["cpu_us"], 2'000'000);
  EXPECT_EQ(open["memory_byte_seconds"], 1ull << 63);
  EXPECT_EQ(open["calls"], 40'000);
  EXPECT_EQ(open["function_ns"], 5'000'000);
  EXPECT_EQ(open["polling_ns"], 600'000'001);
  EXPECT_EQ(open["bytes_in"], 7);
  EXPECT_EQ(open["bytes_out"], 5 << 20);
  EXPECT_EQ(json["usage"][2]["kind"], "ended");
  EXPECT_FALSE(json["usage"][2].contains("lease"));
  EXPECT_EQ(json["usage"][3]["kind"], "elsewhere");
}

TEST_F(InvokerUsageTest, TheTenantIsAskedFor) {
  EXPECT_EQ(Run({"--tenant=bob"}).exit_code, 0);
  EXPECT_EQ(host_.TakeAskedFor(), "bob");
}

TEST_F(InvokerUsageTest, WithNothingUsedThereIsAHeading) {
  host_.set_records({});
  const Finished finished = Run({});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_THAT(finished.output, StartsWith("LEASE"));
  EXPECT_EQ(finished.output.find('\n') + 1, finished.output.size());
}

TEST_F(InvokerUsageTest, NobodyThereIsStatusThree) {
  const std::string address = server_->listen_address();
  server_->Stop();
  server_.reset();
  const Finished finished =
      RunToEnd({.command = {"tools/invoker", "usage", absl::StrCat("--server=", address)}});
  EXPECT_EQ(finished.exit_code, 3);
  EXPECT_EQ(finished.output, "");
  EXPECT_THAT(finished.errors, StartsWith("invoker: error: "));
  EXPECT_THAT(finished.errors, HasSubstr(address));
}

}  // namespace
}  // namespace invoker
