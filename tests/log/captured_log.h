// The process' log while a test runs.

#ifndef INVOKER_TESTS_LOG_CAPTURED_LOG_H_
#define INVOKER_TESTS_LOG_CAPTURED_LOG_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "invoker/log.h"

namespace invoker {

// One at a time. Any thread.
class CapturedLog {
 public:
  CapturedLog() {
    SetLogSink([this](const LogRecord& record) {
      absl::MutexLock lock(&mutex_);
      messages_.emplace_back(record.message);
    });
  }
  ~CapturedLog() { SetLogSink(nullptr); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::vector<std::string> messages() const {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  void Clear() {
    absl::MutexLock lock(&mutex_);
    messages_.clear();
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_TESTS_LOG_CAPTURED_LOG_H_
