#include "src/transport/reactor/quiesce_write.h"

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

TEST(QuiesceWrite, IsOverOnceItIsDelivered) {
  QuiesceWrite write;
  EXPECT_FALSE(write.posted());
  write.set_posted(true);
  EXPECT_TRUE(write.posted() && write.under_way());
  EXPECT_FALSE(write.over());
  write.OnTransferDone(0);
  EXPECT_TRUE(write.posted() && write.over());
  EXPECT_FALSE(write.under_way());
}

TEST(QuiesceWrite, ThatFoundNoSlotMayBePostedAgain) {
  QuiesceWrite write;
  write.set_posted(false);
  EXPECT_FALSE(write.posted());
  EXPECT_FALSE(write.under_way());
}

TEST(QuiesceWrite, IsOverWithTheConnectionAndWithNoOtherFailure) {
  for (const auto& [failure, over] :
       {std::pair(absl::UnavailableError(""), true), std::pair(absl::CancelledError(""), true),
        std::pair(absl::ResourceExhaustedError(""), false),
        std::pair(absl::DeadlineExceededError(""), false)}) {
    QuiesceWrite write;
    write.set_posted(true);
    write.OnOperationFailed(Operation(), failure);
    EXPECT_FALSE(write.under_way()) << failure;
    EXPECT_EQ(write.over(), over) << failure;
  }
}

}  // namespace
}  // namespace invoker::transport
