#include "src/python/native/log_queue.h"

#include <pybind11/pybind11.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "invoker/log.h"

namespace invoker::python {
namespace {

constexpr size_t kMostWaiting = 1000;
constexpr int kPythonsWarning = 30;

int PythonsLevel(LogLevel level) { return 10 * (static_cast<int>(level) + 1); }

class LogQueue {
 public:
  void Start() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      running_ = true;
    }
    SetLogSink([this](const LogRecord& record) { Add(record); });
  }

  void Stop() {
    SetLogSink(nullptr);
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ = false;
    changed_.notify_all();
  }

  std::vector<LogEntry> Take() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !running_ || !entries_.empty(); });
    if (const uint64_t lost = std::exchange(lost_, 0); lost > 0) {
      entries_.emplace_back(kPythonsWarning, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()),
                            0, 0, 0,
                            absl::StrCat("messages that came faster than they were read: ", lost));
    }
    return std::exchange(entries_, {});
  }

 private:
  void Add(const LogRecord& record) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entries_.size() >= kMostWaiting) {
      ++lost_;
      return;
    }
    entries_.emplace_back(PythonsLevel(record.level),
                          absl::ToDoubleSeconds(record.time - absl::UnixEpoch()), record.thread,
                          record.lease, record.session, record.message);
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  std::vector<LogEntry> entries_;
  uint64_t lost_ = 0;
};

// Never destroyed: threads may log while the process ends.
LogQueue& TheQueue() {
  static auto* const queue = new LogQueue;
  return *queue;
}

}  // namespace

void StartLogQueue() { TheQueue().Start(); }

void StopLogQueue() { TheQueue().Stop(); }

std::vector<LogEntry> TakeLogs() {
  const pybind11::gil_scoped_release release;
  return TheQueue().Take();
}

}  // namespace invoker::python
