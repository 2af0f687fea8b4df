#include "src/bootstrap/messages/compatibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void ExpectRefused(const OpenSessionRequest& request, absl::StatusCode code,
                   const std::string& first, const std::string& second) {
  const absl::Status status = CheckCompatible(SampleInfo(), request);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(first), HasSubstr(second)));
}

TEST(CompatibilityTest, AcceptsMatchingSides) {
  EXPECT_TRUE(CheckCompatible(SampleInfo(), SampleRequest()).ok());
}

TEST(CompatibilityTest, AcceptsEachOfTheWorkersFabrics) {
  for (const FabricOffer& offer : SampleInfo().fabrics) {
    OpenSessionRequest request = SampleRequest();
    request.fabric = offer.identity;
    EXPECT_TRUE(CheckCompatible(SampleInfo(), request).ok());
    EXPECT_TRUE(CheckSameFabric(offer.identity, request.fabric, true).ok());
  }
}

// The differences are to the fabric of that name, not to another one.
TEST(CompatibilityTest, ComparesWithTheFabricThatIsAskedFor) {
  OpenSessionRequest request = SampleRequest();
  request.fabric = SampleInfo().fabrics[0].identity;
  request.fabric.protocol_version = 98;
  ExpectRefused(request, absl::StatusCode::kFailedPrecondition, "protocol_version (worker: 3",
                "client: 98");
}

TEST(CompatibilityTest, AcceptsTheLargestWindowAndAddress) {
  OpenSessionRequest request = SampleRequest();
  request.window_bytes = request.response_window.length = SampleInfo().window_bytes;
  request.endpoint_address.assign(kMaxAddressBytes, 'a');
  EXPECT_TRUE(CheckCompatible(SampleInfo(), request).ok());
}

TEST(CompatibilityTest, NamesBothProtocolVersions) {
  OpenSessionRequest request = SampleRequest();
  request.protocol_version = 4711;
  ExpectRefused(request, absl::StatusCode::kFailedPrecondition, "worker speaks protocol version 6",
                "the client protocol version 4711");
}

TEST(CompatibilityTest, TheNewestVersionThatBothSpeakIsTaken) {
  const auto agreed = [](ProtocolVersions worker, ProtocolVersions client) {
    return AgreeOnVersion(worker, client).value_or(0);
  };
  EXPECT_EQ(agreed({5, 5}, {5, 5}), 5u);
  EXPECT_EQ(agreed({5, 7}, {5, 6}), 6u);
  EXPECT_EQ(agreed({5, 6}, {5, 7}), 6u);
  EXPECT_EQ(agreed({5, 6}, {6, 9}), 6u);
  EXPECT_EQ(agreed({4, 5}, {6, 7}), 0u);
  EXPECT_EQ(agreed({6, 7}, {4, 5}), 0u);
}

TEST(CompatibilityTest, TheSideThatIsBehindIsToBeUpgraded) {
  const std::string worker(AgreeOnVersion({4, 5}, {6, 7}).status().message());
  EXPECT_THAT(worker, HasSubstr("the worker speaks protocol versions 4 to 5, the client protocol "
                                "versions 6 to 7; upgrade the worker"));
  const std::string client(AgreeOnVersion({6, 6}, {4, 5}).status().message());
  EXPECT_THAT(client, HasSubstr("upgrade the client"));
}

TEST(CompatibilityTest, AWorkerTakesEachVersionThatItSpeaks) {
  WorkerInfo worker = SampleInfo();
  worker.protocol_versions = {4, 6};
  OpenSessionRequest request = SampleRequest();
  for (const uint32_t version : {4, 5, 6}) {
    request.protocol_version = version;
    EXPECT_TRUE(CheckCompatible(worker, request).ok()) << version;
  }
  for (const uint32_t version : {3, 7}) {
    request.protocol_version = version;
    EXPECT_FALSE(CheckCompatible(worker, request).ok()) << version;
  }
}

TEST(CompatibilityTest, NamesBothProviders) {
  OpenSessionRequest request = SampleRequest();
  request.fabric.provider = "verbs";
  ExpectRefused(request, absl::StatusCode::kFailedPrecondition, "worker: \"shm\", \"tcp;ofi_rxm\"",
                "client: \"verbs\"");
}

TEST(CompatibilityTest, NamesBothProtocols) {
  OpenSessionRequest request = SampleRequest();
  request.fabric.protocol = 99;
  ExpectRefused(request, absl::StatusCode::kFailedPrecondition, "protocol (worker: 7",
                "client: 99");
}

TEST(CompatibilityTest, NamesBothVersionsOfTheProvidersProtocol) {
  OpenSessionRequest request = SampleRequest();
  request.fabric.protocol_version = 98;
  ExpectRefused(request, absl::StatusCode::kFailedPrecondition, "protocol_version (worker: 1",
                "client: 98");
}

TEST(CompatibilityTest, NamesBothAddressFormats) {
  OpenSessionRequest request = SampleRequest();
  request.fabric.address_format = 97;
  ExpectRefused(request, absl::StatusCode::kFailedPrecondition, "address format (worker: 2",
                "client: 97");
}

// The memory that processes of one host share is laid out by the provider's release.
TEST(CompatibilityTest, ReleasesMustBeEqualWithinOneHost) {
  WorkerInfo worker = SampleInfo();
  worker.fabrics[0].identity.shared_layout = 117 << 16;
  OpenSessionRequest request = SampleRequest();
  request.fabric = worker.fabrics[0].identity;
  EXPECT_TRUE(CheckCompatible(worker, request).ok());
  for (const auto& [release, said] : {std::pair(201u << 16, "client: \"201.0\""),
                                      {117u << 16 | 10, "client: \"117.10\""},
                                      {0u, "client: \"unknown, of an older Invoker\""}}) {
    request.fabric.shared_layout = release;
    const absl::Status status = CheckCompatible(worker, request);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("worker: \"117.0\""), HasSubstr(said), HasSubstr("libfabric")));
  }
}

TEST(CompatibilityTest, ReleasesMayDifferBetweenHosts) {
  FabricIdentity worker = SampleInfo().fabrics[1].identity;
  FabricIdentity client = worker;
  worker.shared_layout = 117 << 16;
  client.shared_layout = 201 << 16;
  EXPECT_EQ(DescribeDifferences(worker, client, /*same_host=*/false), "");
  EXPECT_THAT(DescribeDifferences(worker, client, /*same_host=*/true), HasSubstr("201.0"));
}

TEST(CompatibilityTest, NamesEveryDifferenceAtOnce) {
  OpenSessionRequest request = SampleRequest();
  request.fabric.protocol = 99;
  request.fabric.address_format = 97;
  ExpectRefused(request, absl::StatusCode::kFailedPrecondition, "client: 99", "client: 97");
}

TEST(CompatibilityTest, RefusesAnEmptyAddress) {
  OpenSessionRequest request = SampleRequest();
  request.endpoint_address.clear();
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "address", "empty");
}

TEST(CompatibilityTest, RefusesAnOversizedAddress) {
  OpenSessionRequest request = SampleRequest();
  request.endpoint_address.assign(kMaxAddressBytes + 1, 'a');
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "257", "256");
}

TEST(CompatibilityTest, RefusesAWindowOfZeroBytes) {
  OpenSessionRequest request = SampleRequest();
  request.window_bytes = request.response_window.length = 0;
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "window", "0 bytes");
}

TEST(CompatibilityTest, RefusesWindowsOfDifferentSizes) {
  OpenSessionRequest request = SampleRequest();
  request.response_window.length = 4096;
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "65536", "4096");
}

TEST(CompatibilityTest, RefusesALargerWindowThanTheWorkerGives) {
  OpenSessionRequest request = SampleRequest();
  request.window_bytes = request.response_window.length = 2 << 20;
  ExpectRefused(request, absl::StatusCode::kInvalidArgument, "2097152", "1048576");
}

}  // namespace
}  // namespace invoker::bootstrap
