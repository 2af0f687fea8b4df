#include "src/bootstrap/messages/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace invoker::bootstrap {
namespace {

using ::testing::HasSubstr;

TEST(HostPortTest, ParsesNamesAndBothKindsOfAddresses) {
  for (const std::string text :
       {"127.0.0.1:41223", "localhost:0", "worker-3.example.org:65535", "[::1]:41223"}) {
    const absl::StatusOr<HostPort> address = ParseHostPort(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(FormatHostPort(*address), text);
  }
  EXPECT_EQ(ParseHostPort("[::1]:41223")->host, "::1");
}

TEST(HostPortTest, RefusesAnythingElseAndQuotesIt) {
  for (const std::string text :
       {"", "localhost", ":80", "localhost:", "localhost:http", "localhost:65536", "localhost:-1",
        "localhost:+1", "localhost: 1", "::1:80", "[::1]", "[::1:80", "[]:80", "[localhost]:80",
        "http://localhost:80", "local host:80", "a/b:80"}) {
    const absl::Status status = ParseHostPort(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"" + text + "\""));
    EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:41223"));
  }
}

TEST(HostPortTest, NumericTargetsGoPastTheResolver) {
  EXPECT_EQ(GrpcTarget({"127.0.0.1", 5}), "ipv4:127.0.0.1:5");
  EXPECT_EQ(GrpcTarget({"::1", 5}), "ipv6:[::1]:5");
  EXPECT_EQ(GrpcTarget({"localhost", 5}), "dns:///localhost:5");
}

TEST(HostPortTest, ANameListensOnItsIpv4Address) {
  if (!LeadsToLoopback("localhost").value_or(false)) {
    GTEST_SKIP() << "this machine's resolver does not know localhost (no /etc/hosts)";
  }
  const absl::StatusOr<HostPort> address = ResolveListenAddress({"localhost", 0});
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "127.0.0.1");
}

TEST(HostPortTest, RefusesToListenOnForeignAddresses) {
  // From the block that is reserved for documentation.
  const absl::Status status = ResolveListenAddress({"192.0.2.1", 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.1"));
}

}  // namespace
}  // namespace invoker::bootstrap
