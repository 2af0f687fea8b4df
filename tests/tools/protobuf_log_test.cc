// Protobuf's own messages: none is lost without a word, and no peer can fill a log with them.

#include "tools/protobuf_log.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "proto/bootstrap.pb.h"

namespace invoker::tools {
namespace {

TEST(SparseLogTest, OneAnIntervalAndHowManyWereLeftOut) {
  SparseLog log(absl::Minutes(1));
  const absl::Time begin = absl::FromUnixSeconds(1000);
  EXPECT_EQ(log.Admit("first", begin), "first");
  for (int i = 0; i < 7; ++i) EXPECT_EQ(log.Admit("more", begin + absl::Seconds(i)), std::nullopt);
  EXPECT_EQ(log.Admit("late", begin + absl::Minutes(1)), "late (and 7 more before it)");
  EXPECT_EQ(log.Admit("more", begin + absl::Seconds(61)), std::nullopt);
  EXPECT_EQ(log.Admit("last", begin + absl::Hours(1)), "last (and 1 more before it)");
  EXPECT_EQ(log.Admit("alone", begin + absl::Hours(2)), "alone");
}

TEST(ProtobufLogTest, AFloodOfBadStringsIsALine) {
  bootstrap::v1::LeaseTerms sent;
  std::string bytes;
  // A tenant's name that is not UTF-8: sent as bytes, since protobuf would complain here already.
  const int field = bootstrap::v1::LeaseTerms::descriptor()->FindFieldByName("tenant")->number();
  bytes.push_back(static_cast<char>(field << 3 | 2));
  bytes += "\x02\xff\xfe";
  RouteProtobufLog("program");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) sent.ParseFromString(bytes);
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::StartsWith(logged, "program: protobuf: ")) << logged;
  EXPECT_TRUE(absl::StrContains(logged, "UTF-8")) << logged;
  // The end of the line is the second one.
  const std::vector<std::string> lines = absl::StrSplit(logged, '\n');
  EXPECT_EQ(lines.size(), 2u) << logged;
}

}  // namespace
}  // namespace invoker::tools
