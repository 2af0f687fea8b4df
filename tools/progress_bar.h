// How far a long command has come, on standard error.
//
// On a terminal: one line that is drawn over itself,
//    45%|#########           | 45/100 [00:03<00:04, 14.1/s, 2 failed]
// else a plain line each time another tenth is done, so that a log stays short.

#ifndef INVOKER_TOOLS_PROGRESS_BAR_H_
#define INVOKER_TOOLS_PROGRESS_BAR_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace invoker::tools {

// The line of a terminal `columns` wide, without its end. Pure.
std::string ProgressLine(uint64_t done, uint64_t total, uint64_t failed, absl::Duration elapsed,
                         int columns);

// One thread.
class ProgressBar {
 public:
  // The clock starts here. `shown`: else it prints nothing.
  ProgressBar(uint64_t total, bool shown);
  // Leaves the last state of the line where it is.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Update(uint64_t done, uint64_t failed);
  // Prints a line of text above the bar.
  void Say(absl::string_view text);

 private:
  void Draw();

  const uint64_t total_;
  const bool shown_;
  const bool terminal_;
  const absl::Time began_;
  absl::Time drawn_ = absl::InfinitePast();
  uint64_t done_ = 0;
  uint64_t failed_ = 0;
  uint64_t tenths_ = 0;  // that have had their line
  bool dirty_ = false;   // there is something that has not been drawn
};

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_PROGRESS_BAR_H_
