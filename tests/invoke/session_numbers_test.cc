#include "src/invoke/executor/session/session_numbers.h"

#include <memory>
#include <optional>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr uint64_t kWindow = 4096;

class SessionNumbersTest : public testing::Test {
 protected:
  SessionNumbersTest()
      : registry_(MakeTestFunctions(&functions_)),
        reactor_(OpenReactor("shm")),
        numbers_(/*first=*/65534) {
    ClientSession::Options options;
    options.window_bytes = kWindow;
    auto client = ClientSession::Create(reactor_.get(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    numbers_.Allocate();
  }

  // A session with that number, as the next epoch.
  SessionKey Add(uint16_t number) {
    const auto request = client_->MakeRequest(Notification::kWriteImm);
    ExecutorSession::Parts parts;
    parts.reactor = reactor_.get();
    parts.functions = &registry_;
    parts.watch = &watch_;
    parts.number = number;
    parts.epoch = ++epoch_;
    parts.first_sequence = request.first_sequence;
    parts.request_window = *transport::HostBuffer::Allocate(kWindow);
    parts.response_staging = *transport::HostBuffer::Allocate(kWindow);
    auto session = ExecutorSession::Open(std::move(parts), request);
    EXPECT_TRUE(session.ok()) << session.status();
    numbers_.Add(*std::move(session));
    return {number, epoch_};
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::unique_ptr<transport::Reactor> reactor_;
  std::unique_ptr<ClientSession> client_;
  ExecutorWatch watch_;
  SessionNumbers numbers_;
  uint32_t epoch_ = 0;
};

TEST_F(SessionNumbersTest, FindsSessionsByNumberAndEpoch) {
  EXPECT_TRUE(numbers_.empty());
  EXPECT_EQ(numbers_.Find(uint16_t{7}), nullptr);
  const SessionKey key = Add(7);
  ASSERT_NE(numbers_.Find(key), nullptr);
  EXPECT_EQ(numbers_.Find(uint16_t{7}), numbers_.Find(key));
  EXPECT_THAT(numbers_.live(), ElementsAre(7));
  numbers_.Remove(7);
  EXPECT_TRUE(numbers_.empty());
  const SessionKey again = Add(7);
  EXPECT_EQ(numbers_.Find(key), nullptr) << "another session has the number now";
  EXPECT_NE(numbers_.Find(again), nullptr);
}

TEST_F(SessionNumbersTest, NumbersWrapAndSkipThoseThatAreTaken) {
  Add(0);
  EXPECT_EQ(numbers_.next(), 65534);
  EXPECT_EQ(numbers_.FindFree(), 65534);
  EXPECT_EQ(numbers_.FindFree(), 65535);
  EXPECT_EQ(numbers_.FindFree(), 1) << "0 is taken";
  EXPECT_EQ(numbers_.next(), 2);
}

TEST_F(SessionNumbersTest, ANumberIsNotGivenAgainAtOnce) {
  const uint16_t first = *numbers_.FindFree();
  Add(first);
  numbers_.Remove(first);
  EXPECT_NE(numbers_.FindFree(), first) << "late doorbells of the old session name it";
}

TEST_F(SessionNumbersTest, RemovesAnyOfThem) {
  Add(1);
  Add(2);
  Add(3);
  numbers_.Remove(2);
  EXPECT_THAT(numbers_.live(), UnorderedElementsAre(1, 3));
  EXPECT_EQ(numbers_.Find(uint16_t{2}), nullptr);
  EXPECT_NE(numbers_.Find(uint16_t{3}), nullptr);
}

}  // namespace
}  // namespace invoker
