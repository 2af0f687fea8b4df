#include "tests/soak/bills.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace invoker::soak {
namespace {

class BillsTest : public testing::Test {
 protected:
  BillsTest() : bills_(path_) {}

  void Write(const std::string& text) {
    std::ofstream file(path_, std::ios::app);
    file << text;
  }
  static std::string Bill(uint64_t client, uint64_t calls) {
    return absl::StrCat(R"({"tenant":")", TenantOf(client), R"(","calls":)", calls, "}\n");
  }

  const std::string path_ = absl::StrCat(
      testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name());
  Bills bills_;
};

TEST_F(BillsTest, WithoutAFileNobodyHasBeenBilled) {
  bills_.Read();
  EXPECT_EQ(bills_.CallsOf(1), absl::nullopt);
}

TEST_F(BillsTest, EachClientHasItsOwn) {
  Write(Bill(1, 10) + Bill(2, 0) + R"({"tenant":"","calls":7})" + "\n");
  bills_.Read();
  EXPECT_EQ(bills_.CallsOf(1), 10u);
  EXPECT_EQ(bills_.CallsOf(2), 0u);
  EXPECT_EQ(bills_.CallsOf(3), absl::nullopt);
}

TEST_F(BillsTest, WhatIsReadTwiceIsCountedOnce) {
  Write(Bill(1, 10));
  bills_.Read();
  bills_.Read();
  EXPECT_EQ(bills_.CallsOf(1), 10u);
  Write(Bill(1, 5));
  bills_.Read();
  EXPECT_EQ(bills_.CallsOf(1), 15u);
}

TEST_F(BillsTest, ALineThatIsBeingWrittenCountsOnceItIsThere) {
  const std::string bill = Bill(4, 321);
  Write(bill.substr(0, bill.size() / 2));
  bills_.Read();
  EXPECT_EQ(bills_.CallsOf(4), absl::nullopt);
  Write(bill.substr(bill.size() / 2));
  bills_.Read();
  EXPECT_EQ(bills_.CallsOf(4), 321u);
}

}  // namespace
}  // namespace invoker::soak
