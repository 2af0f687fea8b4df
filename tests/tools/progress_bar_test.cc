#include "tools/progress_bar.h"

#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace invoker::tools {
namespace {

TEST(ProgressBarTest, ALineSaysHowFarItIs) {
  EXPECT_EQ(ProgressLine(45, 100, 0, absl::Seconds(90), 120),
            " 45%|##################                      | 45/100 [01:30<01:50, 0.5/s]");
  EXPECT_EQ(
      ProgressLine(100, 100, 3, absl::Seconds(4000), 120),
      "100%|########################################| 100/100 [1:06:40<00:00, 0.0/s, 3 failed]");
}

TEST(ProgressBarTest, BeforeTheFirstItemTheRestIsUnknown) {
  EXPECT_EQ(ProgressLine(0, 8, 0, absl::Seconds(2), 60),
            "  0%|                                | 0/8 [00:02<?, 0.0/s]");
}

TEST(ProgressBarTest, NothingToDoIsDone) {
  EXPECT_EQ(ProgressLine(0, 0, 0, absl::ZeroDuration(), 200).substr(0, 5), "100%|");
}

TEST(ProgressBarTest, ALineNeverFillsTheTerminal) {
  for (int columns = 1; columns < 200; ++columns) {
    EXPECT_LT(ProgressLine(123456, 234567, 12, absl::Hours(30), columns).size(),
              static_cast<size_t>(columns))
        << columns;
  }
}

}  // namespace
}  // namespace invoker::tools
