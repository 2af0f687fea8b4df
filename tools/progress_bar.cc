#include "tools/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "src/log/log.h"
#include "tools/files.h"
#include "tools/options.h"

namespace invoker::tools {
namespace {

// Often enough for the eye.
constexpr absl::Duration kRedraw = absl::Milliseconds(100);

constexpr int kUsualColumns = 80;
constexpr int kShortestBar = 4;
constexpr int kLongestBar = 40;

// "01:02" or "1:02:03"; "?" for what is not known.
std::string Clock(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "?";
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 3600) return absl::StrFormat("%02d:%02d", seconds / 60, seconds % 60);
  return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string Failures(uint64_t failed) {
  return failed == 0 ? "" : absl::StrCat(", ", failed, " failed");
}

int ColumnsOfTerminal() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

}  // namespace

std::string ProgressLine(uint64_t done, uint64_t total, uint64_t failed, absl::Duration elapsed,
                         int columns) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const absl::Duration left = done >= total ? absl::ZeroDuration()
                              : rate > 0 ? absl::Seconds(static_cast<double>(total - done) / rate)
                                         : absl::InfiniteDuration();
  const std::string left_part =
      absl::StrFormat("%3d%%|", total == 0 ? 100 : static_cast<int>(done * 100 / total));
  const std::string right_part =
      absl::StrCat("| ", done, "/", total, " [", Clock(elapsed), "<", Clock(left), ", ",
                   absl::StrFormat("%.1f", rate), "/s", Failures(failed), "]");
  const int room = columns - 1 - static_cast<int>(left_part.size() + right_part.size());
  if (room < kShortestBar) {
    return absl::StrCat(done, "/", total, Failures(failed)).substr(0, std::max(columns - 1, 0));
  }
  const int width = std::min(room, kLongestBar);
  const int filled =
      total == 0 ? width : static_cast<int>(done * static_cast<uint64_t>(width) / total);
  return absl::StrCat(left_part, std::string(filled, '#'), std::string(width - filled, ' '),
                      right_part);
}

ProgressBar::ProgressBar(uint64_t total, bool shown)
    : total_(total), shown_(shown), terminal_(isatty(STDERR_FILENO) != 0), began_(absl::Now()) {
  if (shown_ && terminal_) Draw();
}

ProgressBar::~ProgressBar() {
  if (!shown_ || !terminal_) return;
  if (dirty_) Draw();
  WriteAll(STDERR_FILENO, "standard error", "\n").IgnoreError();
}

void ProgressBar::Update(uint64_t done, uint64_t failed) {
  done_ = done;
  failed_ = failed;
  if (!shown_) return;
  if (terminal_) {
    dirty_ = true;
    if (absl::Now() - drawn_ >= kRedraw) Draw();
    return;
  }
  const uint64_t tenths = total_ == 0 ? 0 : done * 10 / total_;
  if (tenths == tenths_) return;
  tenths_ = tenths;
  LogInfo(absl::StrCat(done, " of ", total_, " done", Failures(failed)));
}

void ProgressBar::Say(absl::string_view text) {
  if (!shown_) return;
  // Where the bar's line was.
  if (terminal_) WriteAll(STDERR_FILENO, "standard error", "\r\x1b[K").IgnoreError();
  LogInfo(text);
  if (terminal_) Draw();
}

void ProgressBar::Draw() {
  drawn_ = absl::Now();
  dirty_ = false;
  // To the beginning of the line, and after the text to its end.
  const std::string line = absl::StrCat(
      "\r", ProgressLine(done_, total_, failed_, drawn_ - began_, ColumnsOfTerminal()), "\x1b[K");
  WriteAll(STDERR_FILENO, "standard error", line).IgnoreError();
}

}  // namespace invoker::tools
