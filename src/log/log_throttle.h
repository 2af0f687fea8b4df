// Keeps a peer from filling the log: of messages of one kind, a few in each stretch of time are
// written, and the others counted. Any thread; does not block but for what writes the message.

#ifndef INVOKER_SRC_LOG_LOG_THROTTLE_H_
#define INVOKER_SRC_LOG_LOG_THROTTLE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "src/log/log.h"

namespace invoker {

class LogThrottle {
 public:
  // `kind` names those that are left out: "sessions that ended".
  explicit LogThrottle(std::string kind, uint32_t messages = 20,
                       absl::Duration stretch = absl::Seconds(10))
      : kind_(std::move(kind)), messages_(messages), stretch_(stretch) {}

  void Log(LogLevel level, absl::string_view message, LogIds ids = {}, absl::Time now = absl::Now())
      ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!IsLogged(level)) return;
    absl::MutexLock lock(&mutex_);
    if (now - began_ >= stretch_ || now < began_) {
      TellLeftOut();
      began_ = now;
      written_ = 0;
    }
    if (written_ == messages_) {
      ++left_out_;
      return;
    }
    ++written_;
    invoker::Log(level, message, ids);
  }

  // What has been left out and not been told of.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    TellLeftOut();
  }

 private:
  void TellLeftOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (left_out_ > 0) LogWarning(absl::StrCat(kind_, ", not written one by one: ", left_out_));
    left_out_ = 0;
  }

  const std::string kind_;
  const uint32_t messages_;
  const absl::Duration stretch_;
  absl::Mutex mutex_;
  absl::Time began_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint32_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_LOG_LOG_THROTTLE_H_
