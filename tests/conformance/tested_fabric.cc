#include "tests/conformance/tested_fabric.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/integration/server_process.h"

namespace invoker::conformance {
namespace {
using transport::SendOrder;
using transport::Way;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

TestedFabric ReadEnvironment() {
  TestedFabric tested;
  tested.request.provider = Variable("INVOKER_TEST_FABRIC");
  tested.request.address = Variable("INVOKER_TEST_ADDRESS");
  tested.label = Variable("INVOKER_TEST_LABEL");
  if (tested.label.empty()) tested.label = tested.request.provider;
  if (tested.request.provider.empty()) {
    tested.status = absl::InvalidArgumentError(
        "INVOKER_TEST_FABRIC names the provider to test, and is not set");
    return tested;
  }
  absl::StatusOr<transport::FabricChoice> choice = transport::Discover(tested.request);
  tested.status = choice.status();
  if (choice.ok()) {
    tested.profile = choice->profile;
    tested.address_format = choice->info->addr_format;
  }
  return tested;
}

std::byte StampAt(uint32_t message, size_t position) {
  return static_cast<std::byte>((message * 2654435761u + position * 40503u) >> 7);
}

}  // namespace

const TestedFabric& Tested() {
  static const auto* const tested = new TestedFabric(ReadEnvironment());
  return *tested;
}

uint32_t Scaled(uint32_t count, uint32_t least) {
  static const uint32_t percent = [] {
    const std::string text = Variable("INVOKER_TEST_SCALE");
    return text.empty() ? 100u : static_cast<uint32_t>(std::max(1, std::atoi(text.c_str())));
  }();
  return std::max(least, static_cast<uint32_t>(uint64_t{count} * percent / 100));
}

std::unique_ptr<transport::Node> OpenNode(size_t bytes, const transport::ReactorOptions& options) {
  return transport::Node::Open(transport::Discover(Tested().request), bytes, options);
}

std::vector<Way> EveryWay() {
  const char* provider = Tested().request.provider.c_str();
  return {{"WriteImm", provider, Notification::kWriteImm, SendOrder::kAfterDelivery},
          {"Pipelined", provider, Notification::kSendAfterWrite, SendOrder::kPipelined},
          {"AfterDelivery", provider, Notification::kSendAfterWrite, SendOrder::kAfterDelivery},
          {"Eager", provider, Notification::kSendAfterWrite, Tested().profile.send_order, true}};
}

Way PreferredWay() {
  const std::vector<Way> ways = EveryWay();
  return *std::find_if(ways.begin(), ways.end(),
                       [](const Way& way) { return WhyUnsupported(way).empty(); });
}

std::string WhyUnsupported(const Way& way) {
  const transport::Profile& profile = Tested().profile;
  if (way.notification == Notification::kWriteImm && profile.immediates_kill) {
    return "with this libfabric, a peer that disconnects in the middle of a write with immediate "
           "ends the process";
  }
  if (way.notification == Notification::kWriteImm && profile.notification != way.notification) {
    return absl::StrCat("a write carries ", profile.immediate_bytes,
                        " bytes of immediate here, or none that its target hears of");
  }
  if (way.eager) {
    return profile.eager_bytes > 0 ? "" : "no payload goes inside a send on this fabric";
  }
  if (way.notification == Notification::kSendAfterWrite && way.order == SendOrder::kPipelined &&
      profile.send_order != way.order) {
    return "the fabric does not keep a send behind the write before it (no FI_ORDER_SAW)";
  }
  return "";
}

std::string WhyAbsent() {
  if (Tested().status.ok()) return "";
  return transport::WhyNotInLibfabric(transport::FindRow(Tested().request.provider));
}

void Stamp(std::byte* memory, size_t length, uint32_t message) {
  for (size_t i = 0; i < length; ++i) memory[i] = StampAt(message, i);
}

size_t FirstDifference(const std::byte* memory, size_t length, uint32_t message) {
  for (size_t i = 0; i < length; ++i) {
    if (memory[i] != StampAt(message, i)) return i;
  }
  return length;
}

std::string KnownLimit() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  // Without what parameters add: Every/Suite.Test/Parameter.
  const std::vector<std::string> suite = absl::StrSplit(test.test_suite_name(), '/');
  const std::vector<std::string> name = absl::StrSplit(test.name(), '/');
  const std::string all = absl::StrCat(suite.back(), ".", name.front());
  const std::string this_one = name.size() < 2 ? all : absl::StrCat(all, "/", name[1]);
  for (absl::string_view limit : absl::StrSplit(Variable("INVOKER_TEST_LIMITS"), "; ")) {
    if (absl::ConsumePrefix(&limit, absl::StrCat(all, ": ")) ||
        absl::ConsumePrefix(&limit, absl::StrCat(this_one, ": "))) {
      return std::string(limit);
    }
  }
  return "";
}

void FabricSuite::SetUp() {
  if (const std::string absent = WhyAbsent(); !absent.empty()) GTEST_SKIP() << absent;
  ASSERT_TRUE(Tested().status.ok()) << Tested().status;
  if (const std::string limit = KnownLimit(); !limit.empty()) GTEST_SKIP() << "limit: " << limit;
}

FabricSuite::~FabricSuite() {
  EXPECT_EQ(SharedMemoryOf(getpid()), std::vector<std::string>());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child process is left";
  EXPECT_EQ(errno, ECHILD);
}

void WaysSuite::SetUp() {
  FabricSuite::SetUp();
  if (HasFatalFailure() || IsSkipped()) return;
  if (const std::string reason = WhyUnsupported(GetParam()); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
}

}  // namespace invoker::conformance
