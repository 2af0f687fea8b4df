// What Invoker finds a fabric to be, against what INVOKER_TEST_EXPECT says of it.
//
// The other tests ask the profile what the fabric has, so something that the profile no longer has
// would only be skipped there. Here it is missed.

#include <cstdlib>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using Properties = std::map<std::string, std::string>;

Properties PropertiesOf(const transport::Reactor& reactor) {
  const transport::Profile& profile = reactor.profile();
  const bool immediates = profile.notification == Notification::kWriteImm;
  const bool pipelined = profile.send_order == transport::SendOrder::kPipelined;
  const bool random = profile.keys == transport::KeyPolicy::kRandom;
  const bool offsets = profile.addressing == transport::Addressing::kOffset;
  return {
      {"notification", immediates ? "write_imm" : "send_after_write"},
      {"order", pipelined ? "pipelined" : "after-delivery"},
      {"atomics", reactor.native_atomics() ? "native" : "message"},
      {"wait", std::string(transport::WaitMethodName(reactor.wait_method()))},
      {"keys", absl::StrCat(random ? "random/" : "provider/", profile.key_bytes)},
      {"immediate", absl::StrCat(profile.immediate_bytes)},
      {"addressing", offsets ? "offset" : "virtual"},
      {"local", profile.local_registration ? "1" : "0"},
      {"eager", profile.eager_bytes > 0 ? "1" : "0"},
  };
}

TEST(Expectations, TheFabricIsUsedAsItsRowSays) {
  const char* text = std::getenv("INVOKER_TEST_EXPECT_2");
  if (text == nullptr || *text == '\0' || fi_version() < FI_VERSION(1, 18)) {
    text = std::getenv("INVOKER_TEST_EXPECT");
  }
  if (text == nullptr || *text == '\0') {
    GTEST_SKIP() << "INVOKER_TEST_EXPECT is not set: nothing says what this fabric should be";
  }
  if (const std::string absent = WhyAbsent(); !absent.empty()) GTEST_SKIP() << absent;
  Properties expected;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> property =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    EXPECT_TRUE(expected.insert(property).second) << property.first << " stands there twice";
  }
  ASSERT_TRUE(Tested().status.ok()) << Tested().status;
  const auto node = OpenNode(4096);
  ASSERT_NE(node, nullptr);
  // What is left out, or unknown, differs too.
  EXPECT_EQ(PropertiesOf(node->reactor()), expected);
}

}  // namespace
}  // namespace invoker::conformance
