#include "src/base/hex.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

TEST(BytesFromHex, ReadsWhatBytesToHexStringWrites) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(BytesFromHex(absl::BytesToHexString(all)), all);
  EXPECT_EQ(BytesFromHex(""), "");
}

TEST(BytesFromHex, RefusesAnythingElse) {
  for (const char* wrong : {"0", "abc", "0g", "g0", "AB", " 1", "-1", "0x"}) {
    EXPECT_FALSE(BytesFromHex(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace invoker
