// Two releases of libfabric on one host: the fabric whose processes share memory is refused in
// words, the next one is taken. One is the system's, the other is what LD_LIBRARY_PATH chooses for
// this test (tools/test --libfabric=DIR).

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// For ChildProcess.
using Environment = std::vector<std::string>;

const Environment kChosen = {};
const Environment kSystems = {"LD_LIBRARY_PATH"};

// The version of the fabric as a program sees it, "117.0"; empty: there is none.
std::string ProviderVersion(const Environment& environment, const std::string& provider) {
  const Finished finished =
      RunToEnd({.command = {"tools/invoker", "fabrics", "--json", "--provider=" + provider},
                .environment = environment});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  const auto document = nlohmann::json::parse(finished.output, nullptr, false);
  if (document.is_discarded() || document["fabrics"].empty()) return "";
  return document["fabrics"][0]["provider_version"];
}

Finished Ping(const ServerProcess& server, const Environment& environment,
              const std::string& provider, const std::string& size = "64") {
  return RunToEnd({.command = {"tools/invoker", "ping", "--server=" + server.address(), "--count=2",
                               "--provider=" + provider, "--size=" + size},
                   .environment = environment});
}

class TwoReleasesTest : public ServerTest {
 protected:
  void SetUp() override {
    versions_ = {ProviderVersion(kChosen, "shm"), ProviderVersion(kSystems, "shm")};
    if (versions_.first == versions_.second) {
      GTEST_SKIP() << "the chosen libfabric is the system's; tools/test --libfabric=DIR chooses "
                      "another";
    }
  }

  // Clients of `client` and a server of `server`.
  void Try(const Environment& server, const Environment& client, const std::string& servers,
           const std::string& clients) {
    ServerProcess* const started =
        StartServer({.provider = "shm,tcp;ofi_rxm", .environment = server});
    ASSERT_NE(started, nullptr);
    const std::string differ =
        absl::StrCat("(worker: \"", servers, "\", client: \"", clients, "\")");
    const Finished automatic = Ping(*started, client, "auto");
    EXPECT_EQ(automatic.exit_code, 0) << automatic.errors;
    EXPECT_THAT(automatic.output, AllOf(HasSubstr("over tcp;ofi_rxm: "), HasSubstr("not shm"),
                                        HasSubstr(differ), HasSubstr("2 answered")));
    // Releases differ in how ofi_rxm sends what is longer than a buffer.
    for (const char* size : {"0", "1000", "5000", "20K", "200K", "1M"}) {
      const Finished tcp = Ping(*started, client, "tcp;ofi_rxm", size);
      EXPECT_EQ(tcp.exit_code, 0) << size << ": " << tcp.errors;
      EXPECT_THAT(tcp.output, HasSubstr("2 answered")) << size;
    }
    const Finished shm = Ping(*started, client, "shm");
    EXPECT_NE(shm.exit_code, 0);
    EXPECT_THAT(shm.errors, AllOf(HasSubstr(differ), HasSubstr("same version of libfabric")));
  }

  std::pair<std::string, std::string> versions_;
};

TEST_F(TwoReleasesTest, TheServerHasTheChosenOne) {
  Try(kChosen, kSystems, versions_.first, versions_.second);
}

TEST_F(TwoReleasesTest, TheClientHasTheChosenOne) {
  Try(kSystems, kChosen, versions_.second, versions_.first);
}

TEST_F(TwoReleasesTest, TheSameOneMeetsItselfOverSharedMemory) {
  for (const Environment& environment : {kChosen, kSystems}) {
    ServerProcess* const server = StartServer({.provider = "shm", .environment = environment});
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(Ping(*server, environment, "shm").exit_code, 0);
  }
}

}  // namespace
}  // namespace invoker
