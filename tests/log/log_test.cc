#include "src/log/log.h"

#include <gmock/gmock.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "proto/bootstrap.pb.h"
#include "tests/log/captured_log.h"

namespace invoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr char kDate[] = "20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T";

std::string ErrorsOf(LogFormat format, const std::function<void()>& write) {
  SetLogFormat(format, "program");
  testing::internal::CaptureStderr();
  write();
  return testing::internal::GetCapturedStderr();
}

TEST(LogTest, PlainLinesAreForSomebodyWhoHasTypedACommand) {
  const std::string text = ErrorsOf(LogFormat::kPlain, [] {
    LogInfo("hello");
    LogWarning("careful");
    LogError("line 1\nline 2\t\x1b[31m", {3, 4});
  });
  EXPECT_EQ(text,
            "program: hello\nprogram: warning: careful\n"
            "program: error: line 1\nline 2\t?[31m lease=3 session=4\n");
}

TEST(LogTest, TextHasTheTimeWithItsZoneTheThreadAndTheLevelAndALineAMessage) {
  const std::string text = ErrorsOf(LogFormat::kText, [] {
    LogInfo("first\n2026-11-28T forged", {3, 0});
  });
  EXPECT_THAT(
      text, MatchesRegex(absl::StrCat(
                kDate, "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9]*[+-][0-9][0-9]:[0-9][0-9] ", "\\[",
                syscall(SYS_gettid), "\\] program: info: first\\\\n2026-11-28T forged lease=3\n")));
}

TEST(LogTest, JsonIsAnObjectALineWhateverIsInTheMessage) {
  const std::string text = ErrorsOf(LogFormat::kJson, [] {
    LogWarning("quoted \"\\ and\nnot UTF-8: \xff", {1, 2});
  });
  const nlohmann::json entry = nlohmann::json::parse(text);
  EXPECT_EQ(entry["level"], "warning");
  EXPECT_EQ(entry["program"], "program");
  EXPECT_EQ(entry["lease"], 1);
  EXPECT_EQ(entry["session"], 2);
  EXPECT_EQ(entry["thread"], syscall(SYS_gettid));
  EXPECT_EQ(entry["message"], "quoted \"\\ and\nnot UTF-8: \xef\xbf\xbd");
  EXPECT_THAT(std::string(entry["time"]), MatchesRegex(absl::StrCat(kDate, ".*[+-].*")));
}

TEST(LogTest, MessagesBelowTheLevelAreLeftOut) {
  const CapturedLog log;
  SetLogLevel(LogLevel::kError);
  LogWarning("no");
  LogError("yes");
  SetLogLevel(LogLevel::kInfo);
  LogDebug("no");
  EXPECT_THAT(log.messages(), ElementsAre("yes"));
}

TEST(LogTest, ASinkGetsRecordsAndIsLeftForGood) {
  std::vector<LogRecord> records;
  const absl::Time before = absl::Now();
  SetLogSink([&records](const LogRecord& record) { records.push_back(record); });
  std::thread([] { LogError("bad", {7, 8}); }).join();
  SetLogSink(nullptr);
  EXPECT_THAT(ErrorsOf(LogFormat::kPlain, [] { LogInfo("later"); }), "program: later\n");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].level, LogLevel::kError);
  EXPECT_EQ(records[0].lease, 7u);
  EXPECT_EQ(records[0].session, 8u);
  EXPECT_NE(records[0].thread, static_cast<uint64_t>(syscall(SYS_gettid)));
  EXPECT_GE(records[0].time, before - absl::Milliseconds(1));
}

TEST(LogTest, AFloodOfBadStringsIsALine) {
  bootstrap::v1::LeaseTerms sent;
  std::string bytes;
  // A tenant's name that is not UTF-8: sent as bytes, since protobuf would complain here already.
  const int field = bootstrap::v1::LeaseTerms::descriptor()->FindFieldByName("tenant")->number();
  bytes.push_back(static_cast<char>(field << 3 | 2));
  bytes += "\x02\xff\xfe";
  const CapturedLog log;
  for (int i = 0; i < 1000; ++i) sent.ParseFromString(bytes);
  ASSERT_THAT(log.messages(), testing::SizeIs(1));
  EXPECT_THAT(log.messages()[0], StartsWith("protobuf: "));
  EXPECT_TRUE(absl::StrContains(log.messages()[0], "UTF-8")) << log.messages()[0];
}

TEST(LogTest, MessagesOfGrpcAreInTheLog) {
  unsetenv("GRPC_VERBOSITY");
  gpr_log_verbosity_init();
  const CapturedLog log;
  gpr_log(GPR_DEBUG, "left out");
  EXPECT_THAT(log.messages(), IsEmpty());
  for (int i = 0; i < 100; ++i) gpr_log(GPR_ERROR, "number %d", i);
  EXPECT_THAT(log.messages(), ElementsAre("gRPC: number 0"));
}

}  // namespace
}  // namespace invoker
