// The file of ended leases: what the next server finds in it.

#include "src/accounting/usage_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/accounting/usage_book.h"
#include "tests/log/captured_log.h"

namespace invoker {
namespace {

std::string PathFor(const char* name) { return testing::TempDir() + "/" + name; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

ResourceUsage Sample() {
  ResourceUsage usage;
  usage.lease_time = absl::Microseconds(1'234'567);
  usage.cpu_time = absl::Microseconds(89);
  usage.memory_byte_seconds = 1ull << 60;
  usage.calls = 3;
  usage.function_time = absl::Nanoseconds(4);
  usage.polling_time = absl::Nanoseconds(5'000'000'001);
  usage.bytes_in = 6;
  usage.bytes_out = 7;
  return usage;
}

std::unique_ptr<UsageBook> OpenBook(const std::string& path) {
  UsageBookOptions options;
  options.file = path;
  absl::StatusOr<std::unique_ptr<UsageBook>> book = UsageBook::Open(std::move(options));
  EXPECT_TRUE(book.ok()) << book.status();
  return book.ok() ? *std::move(book) : nullptr;
}

TEST(UsageFile, WhatIsAppendedIsReadBack) {
  const std::string path = PathFor("appended");
  int lines = 0;
  const auto ignore = [](absl::string_view) { FAIL(); };
  {
    auto file = UsageFile::Open(
        path, [&](const std::string&, const ResourceUsage&) { ++lines; }, ignore);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append("a \"quoted\" one", 2, Sample()).ok());
    ASSERT_TRUE((*file)->Append("", 0, ResourceUsage()).ok());
  }
  EXPECT_EQ(lines, 0);
  std::vector<std::string> tenants;
  std::vector<ResourceUsage> usages;
  auto file = UsageFile::Open(
      path,
      [&](const std::string& tenant, const ResourceUsage& usage) {
        tenants.push_back(tenant);
        usages.push_back(usage);
      },
      ignore);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(tenants, (std::vector<std::string>{"a \"quoted\" one", ""}));
  const ResourceUsage expected = Sample();
  EXPECT_EQ(usages[0].lease_time, expected.lease_time);
  EXPECT_EQ(usages[0].cpu_time, expected.cpu_time);
  EXPECT_EQ(usages[0].memory_byte_seconds, expected.memory_byte_seconds);
  EXPECT_EQ(usages[0].calls, expected.calls);
  EXPECT_EQ(usages[0].function_time, expected.function_time);
  EXPECT_EQ(usages[0].polling_time, expected.polling_time);
  EXPECT_EQ(usages[0].bytes_in, expected.bytes_in);
  EXPECT_EQ(usages[0].bytes_out, expected.bytes_out);
  remove(path.c_str());
}

// Like a disk that is full for a while.
TEST(UsageFile, ALineThatWasCutOffCostsNoOther) {
  const std::string path = PathFor("cut_off");
  constexpr int kLines = 3;
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto nothing = [](const std::string&, const ResourceUsage&) { FAIL(); };
  {
    auto file = UsageFile::Open(path, nothing, [](absl::string_view) { FAIL(); });
    ASSERT_TRUE(file.ok()) << file.status();
    for (int i = 0; i < kLines; ++i) {
      const rlimit full = {std::filesystem::file_size(path) + 20, before.rlim_max};
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
      // The second time there is no room for a byte.
      for (int tries = 0; tries < 2; ++tries) {
        EXPECT_FALSE((*file)->Append("cut off", 1, Sample()).ok());
      }
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
      ASSERT_TRUE((*file)->Append("whole", 1, Sample()).ok());
    }
  }
  std::vector<std::string> tenants;
  int bad = 0;
  auto file = UsageFile::Open(
      path, [&](const std::string& tenant, const ResourceUsage&) { tenants.push_back(tenant); },
      [&](absl::string_view) { ++bad; });
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(tenants, std::vector<std::string>(kLines, "whole"));
  EXPECT_EQ(bad, kLines);
  remove(path.c_str());
}

TEST(UsageFile, ABookGoesOnWhereTheLastOneEnded) {
  const std::string path = PathFor("restart");
  CapturedLog log;
  UsageReading reading;
  for (uint64_t start = 1; start <= 3; ++start) {
    auto book = OpenBook(path);
    ASSERT_NE(book, nullptr);
    book->OpenLease(7, "alice", 1, 0);
    reading.calls = 100;
    book->CloseLease(7, reading);
    book->OpenLease(8, "alice", 1, 0);  // still open when the server ends: not in the file
    reading.calls = 1;
    book->Update(8, reading);
    const std::vector<bootstrap::UsageRecord> records = book->Records("alice");
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[1].usage.calls, start * 100);
  }
  EXPECT_TRUE(log.messages().empty());
  remove(path.c_str());
}

// They go on to another server's counters, which have what the last book added already.
TEST(UsageFile, TotalsBeginAnewWithEachBook) {
  const std::string path = PathFor("totals");
  CapturedLog log;
  UsageReading reading;
  for (uint64_t start = 1; start <= 3; ++start) {
    auto book = OpenBook(path);
    ASSERT_NE(book, nullptr);
    for (const UsageBook::TenantTotal& total : book->Totals()) {
      EXPECT_EQ(total.usage.calls, 0u) << total.tenant;
      EXPECT_EQ(total.usage.lease_time, absl::ZeroDuration()) << total.tenant;
    }
    book->OpenLease(7, "alice", 1, 0);
    reading.calls = 100;
    book->CloseLease(7, reading);
    ASSERT_EQ(book->Totals().size(), 1u);
    EXPECT_EQ(book->Totals().front().usage.calls, 100u);
    EXPECT_EQ(book->Records("").front().usage.calls, start * 100);
  }
  EXPECT_TRUE(log.messages().empty());
  remove(path.c_str());
}

TEST(UsageFile, AConnectionThatCalledNothingIsNotWritten) {
  const std::string path = PathFor("nothing");
  CapturedLog log;
  auto book = OpenBook(path);
  ASSERT_NE(book, nullptr);
  UsageReading reading;
  reading.polling_time = absl::Nanoseconds(1);  // the server's own executors'
  book->OpenLease(1, "idle", 0, 0);
  book->CloseLease(1, reading);
  EXPECT_EQ(ReadFile(path), "");
  reading.calls = 1;
  book->OpenLease(2, "caller", 0, 0);
  book->CloseLease(2, reading);
  book->OpenLease(3, "holder", 1, 0);
  book->CloseLease(3, UsageReading());
  const std::string written = ReadFile(path);
  EXPECT_EQ(written.find("idle"), std::string::npos) << written;
  EXPECT_NE(written.find("caller"), std::string::npos) << written;
  EXPECT_NE(written.find("holder"), std::string::npos) << written;
  remove(path.c_str());
}

TEST(UsageFile, ALineThatWasCutOffIsReportedAndHurtsNoOther) {
  const std::string path = PathFor("cut");
  CapturedLog log;
  UsageReading reading;
  reading.calls = 5;
  {
    auto book = OpenBook(path);
    book->OpenLease(1, "alice", 1, 0);
    book->CloseLease(1, reading);
  }
  const std::string whole = ReadFile(path);
  std::ofstream(path, std::ios::app) << whole.substr(0, whole.size() / 2);
  ASSERT_TRUE(log.messages().empty());
  {
    auto book = OpenBook(path);
    ASSERT_EQ(log.messages().size(), 1u);
    EXPECT_NE(log.messages()[0].find("line 2"), std::string::npos) << log.messages()[0];
    book->OpenLease(1, "alice", 1, 0);
    book->CloseLease(1, reading);
  }
  log.Clear();
  auto book = OpenBook(path);
  EXPECT_EQ(log.messages().size(), 1u);
  ASSERT_EQ(book->Records("").size(), 1u);
  EXPECT_EQ(book->Records("").front().usage.calls, 10u);
  remove(path.c_str());
}

TEST(UsageFile, LeaseIdsAreNotWritten) {
  const std::string path = PathFor("secret");
  CapturedLog log;
  auto book = OpenBook(path);
  book->OpenLease(1234567890123456789u, "alice", 1, 0);
  book->CloseLease(1234567890123456789u, UsageReading());
  EXPECT_EQ(ReadFile(path).find("1234567890123456789"), std::string::npos);
  remove(path.c_str());
}

TEST(UsageFile, AFileThatCannotBeOpenedIsNamed) {
  UsageBookOptions options;
  options.file = "/nowhere/at/all";
  const absl::Status status = UsageBook::Open(std::move(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace invoker
