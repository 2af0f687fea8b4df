// A provider that crashes in its self-test costs the server this fabric and nothing else, and
// everybody is told.

#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/integration/dying_self_test.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kDied[] = "the self-test of provider shm died of SIGSEGV";

std::vector<std::string> ProvidersIn(const nlohmann::json& fabrics) {
  std::vector<std::string> providers;
  for (const auto& fabric : fabrics) providers.push_back(fabric["provider"]);
  return providers;
}

class SelfTestDeathTest : public ServerTest {
 protected:
  void ExpectNothingLeft() {
    ASSERT_GT(dying_.pid(), 0);
    EXPECT_THAT(SharedMemoryOf(dying_.pid()), IsEmpty());
  }

  const DyingSelfTest dying_{"segv"};
};

TEST_F(SelfTestDeathTest, TheServerOffersTheOtherFabrics) {
  ServerProcess* server = StartServer({.environment = dying_.environment()});
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(ProvidersIn(server->ready()["fabrics"]),
              AllOf(testing::Contains("tcp;ofi_rxm"), testing::Not(testing::Contains("shm"))));
  EXPECT_TRUE(server->AwaitLog(absl::StrCat("shm is not offered: ", kDied))) << server->log();
  ExpectNothingLeft();
  const auto client = Client::Connect(server->address(), {});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->provider(), server->ready()["fabrics"][0]["provider"]);
}

TEST_F(SelfTestDeathTest, AClientThatNamesTheFabricIsToldWhy) {
  ServerProcess* server = StartServer({.environment = dying_.environment()});
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.provider = "shm";
  const absl::Status status = Client::Connect(server->address(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(kDied), HasSubstr("it offers "), HasSubstr("\"tcp;ofi_rxm\"")));
}

TEST_F(SelfTestDeathTest, FabricsVerifySaysSo) {
  const Finished text =
      RunToEnd({.command = {"tools/invoker", "fabrics", "--verify", "--provider=shm"},
                .environment = dying_.environment()});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.errors, HasSubstr(kDied));
  EXPECT_THAT(text.output, AllOf(HasSubstr("self-test failed"), HasSubstr("0 of 1")));
  const Finished json =
      RunToEnd({.command = {"tools/invoker", "fabrics", "--verify", "--json", "--provider=shm"},
                .environment = dying_.environment()});
  EXPECT_EQ(json.exit_code, 1);
  const auto document = nlohmann::json::parse(json.output);
  ASSERT_EQ(document["fabrics"].size(), 1u);
  const auto& observed = document["fabrics"][0]["observed"];
  EXPECT_EQ(observed["ok"], false);
  EXPECT_EQ(observed["died"], true);
  EXPECT_EQ(observed["error"], kDied);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace invoker
