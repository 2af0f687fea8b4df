#include "src/transport/operations/retry_queue.h"

#include <vector>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

class RetryQueueTest : public testing::Test {
 protected:
  RetryQueueTest() : queue_(absl::Nanoseconds(100)) {}

  std::vector<const Operation*> Queued() const {
    std::vector<const Operation*> queued;
    queue_.ForEach([&](const Operation& operation) { queued.push_back(&operation); });
    return queued;
  }

  RetryQueue queue_;
  Operation operations_[3];
};

TEST_F(RetryQueueTest, KeepsTheOrderOfTheRefusals) {
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.front(), nullptr);
  for (Operation& operation : operations_) queue_.Push(&operation, 0);
  EXPECT_EQ(queue_.front(), &operations_[0]);
  EXPECT_EQ(Queued(),
            (std::vector<const Operation*>{&operations_[0], &operations_[1], &operations_[2]}));
  std::vector<Operation*> tried;
  queue_.RunOnce(1, [&](Operation* operation, bool) {
    EXPECT_FALSE(operation->queued);
    tried.push_back(operation);
  });
  EXPECT_EQ(tried, (std::vector<Operation*>{&operations_[0], &operations_[1], &operations_[2]}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(RetryQueueTest, TriesEachOnceThoughItIsRefusedAgain) {
  queue_.Push(&operations_[0], 0);
  queue_.Push(&operations_[1], 0);
  int attempts = 0;
  queue_.RunOnce(1, [&](Operation* operation, bool) {
    ++attempts;
    queue_.Push(operation, 1);
  });
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(Queued(), (std::vector<const Operation*>{&operations_[0], &operations_[1]}));
}

TEST_F(RetryQueueTest, RefusalAgainStartsNoNewDeadline) {
  queue_.Push(&operations_[0], 0);
  queue_.Push(&operations_[1], 50);
  std::vector<bool> expired;
  const auto refuse = [&](int64_t now_ns) {
    expired.clear();
    queue_.RunOnce(now_ns, [&](Operation* operation, bool is_expired) {
      expired.push_back(is_expired);
      queue_.Push(operation, now_ns);
    });
  };
  refuse(100);
  EXPECT_EQ(expired, (std::vector<bool>{false, false}));
  refuse(101);
  EXPECT_EQ(expired, (std::vector<bool>{true, false}));
  refuse(151);
  EXPECT_EQ(expired, (std::vector<bool>{true, true}));
}

TEST_F(RetryQueueTest, FreshOperationMayJoinDuringARun) {
  queue_.Push(&operations_[0], 0);
  queue_.RunOnce(90, [&](Operation*, bool) { queue_.Push(&operations_[2], 90); });
  bool expired = true;
  queue_.RunOnce(190, [&](Operation* operation, bool is_expired) {
    EXPECT_EQ(operation, &operations_[2]);
    expired = is_expired;
  });
  EXPECT_FALSE(expired) << "it has a deadline of its own";
}

}  // namespace
}  // namespace invoker::transport
