#include "src/invoke/session/failed_posts.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

FailedPosts::Post Failure(absl::string_view why) {
  return {CellRun(), CallFate::kMaybeExecuted, absl::UnavailableError(why)};
}

TEST(FailedPostsTest, TheFirstFailureEndsTheSessionAtOnce) {
  FailedPosts posts;
  EXPECT_EQ(posts.Due(1), nullptr);
  posts.Add(Failure("first"));
  posts.Add(Failure("second"));
  const absl::Status* const due = posts.Due(2);
  ASSERT_NE(due, nullptr);
  EXPECT_EQ(due->message(), "first");
  EXPECT_EQ(posts.Take().size(), 2u);
  EXPECT_EQ(posts.Due(3), nullptr);
}

TEST(FailedPostsTest, AHeldFailureIsDueAfterTheHold) {
  FailedPosts posts;
  posts.Hold(100);
  posts.Add(Failure("broken"));
  EXPECT_EQ(posts.Due(1000), nullptr);
  posts.Add(Failure("more"));
  EXPECT_EQ(posts.Due(1099), nullptr) << "a later failure does not lengthen the hold";
  EXPECT_NE(posts.Due(1100), nullptr);
}

}  // namespace
}  // namespace invoker
