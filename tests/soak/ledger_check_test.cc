#include "tests/soak/ledger_check.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace invoker::soak {
namespace {

using testing::HasSubstr;

class LedgerCheckTest : public testing::Test {
 protected:
  // Three calls, each executed and answered.
  LedgerCheckTest() : record_(std::make_unique<ClientRecord>()) {
    record_->sent = 3;
    for (int call = 0; call < 3; ++call) {
      record_->calls[call].executed = 1;
      record_->calls[call].answered = 1;
    }
  }

  std::unique_ptr<ClientRecord> record_;
};

TEST_F(LedgerCheckTest, CallsThatWereExecutedOnceAreRight) {
  EXPECT_EQ(WrongCall(*record_, false), "");
  EXPECT_EQ(WrongCall(*record_, true), "");
}

TEST_F(LedgerCheckTest, OnlyAKilledClientsCallsMayBeWithoutAnAnswer) {
  record_->calls[2].answered = 0;
  EXPECT_EQ(WrongCall(*record_, true), "");
  EXPECT_THAT(WrongCall(*record_, false), HasSubstr("call 2 was sent, executed 1 times"));
  record_->calls[2].executed = 0;
  EXPECT_EQ(WrongCall(*record_, true), "");
  EXPECT_THAT(WrongCall(*record_, false), HasSubstr("call 2 was sent, executed 0 times"));
}

// Which sums do not tell.
TEST_F(LedgerCheckTest, OneCallTwiceIsNotTwoCallsOnce) {
  record_->calls[0].executed = 2;
  record_->calls[1].executed = 0;
  record_->calls[1].answered = 0;
  EXPECT_THAT(WrongCall(*record_, true), HasSubstr("call 0 was sent, executed 2 times"));
}

TEST_F(LedgerCheckTest, WhatWasAnsweredWasExecuted) {
  record_->calls[1].executed = 0;
  EXPECT_THAT(WrongCall(*record_, true), HasSubstr("executed 0 times, answered 1 times"));
}

TEST_F(LedgerCheckTest, WhatWasNotSentIsNotExecuted) {
  record_->calls[3].executed = 1;
  EXPECT_THAT(WrongCall(*record_, true), HasSubstr("call 3 was not sent, executed 1 times"));
}

TEST_F(LedgerCheckTest, MoreCallsThanAClientHasAreWrong) {
  record_->sent = kMostCalls + 1;
  EXPECT_THAT(WrongCall(*record_, true), HasSubstr("more than a client has"));
}

}  // namespace
}  // namespace invoker::soak
