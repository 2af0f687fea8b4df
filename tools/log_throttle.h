// Keeps a client from filling the log: of lines of one kind, a few in each stretch of time are
// written, and the others counted. Any thread; does not block but for what writes the line.

#ifndef INVOKER_TOOLS_LOG_THROTTLE_H_
#define INVOKER_TOOLS_LOG_THROTTLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace invoker::tools {

class LogThrottle {
 public:
  using Write = std::function<void(absl::string_view line)>;

  static constexpr uint32_t kLines = 20;
  static constexpr absl::Duration kStretch = absl::Seconds(10);

  // `kind` is what those that are left out were: "sessions that ended".
  LogThrottle(std::string kind, Write write) : kind_(std::move(kind)), write_(std::move(write)) {}

  void Log(absl::string_view line, absl::Time now = absl::Now()) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (now - began_ >= kStretch || now < began_) {
      TellLeftOut();
      began_ = now;
      lines_ = 0;
    }
    if (lines_ == kLines) {
      ++left_out_;
      return;
    }
    ++lines_;
    write_(line);
  }

  // What has been left out and not been told of.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    TellLeftOut();
  }

 private:
  void TellLeftOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (left_out_ > 0) write_(absl::StrCat(kind_, ", not written one by one: ", left_out_));
    left_out_ = 0;
  }

  const std::string kind_;
  const Write write_;
  absl::Mutex mutex_;
  absl::Time began_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint32_t lines_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_LOG_THROTTLE_H_
