// Memory that a client has registered, at its executor, and whether a transfer of it may begin.
//
// The executor's thread begins and ends transfers. Another thread takes the memory back for the
// client. It does not wait for the executor's thread, which may be inside a function for long: no
// transfer begins after Revoke.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_CLIENT_WINDOW_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_CLIENT_WINDOW_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/transport/fabric/remote_window.h"

namespace invoker {

class ClientWindow {
 public:
  ClientWindow(const transport::RemoteWindow& window, bool readable, bool writable)
      : window_(window), readable_(readable), writable_(writable) {}
  ClientWindow(const ClientWindow&) = delete;
  ClientWindow& operator=(const ClientWindow&) = delete;

  const transport::RemoteWindow& window() const { return window_; }
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }

  // Any thread. False once it has been revoked.
  bool BeginTransfer() {
    absl::MutexLock lock(&mutex_);
    if (revoked()) return false;
    ++transfers_;
    return true;
  }
  // One that has ended for good. Never called for one of which the fabric may still be in the
  // middle.
  void EndTransfer() {
    absl::MutexLock lock(&mutex_);
    --transfers_;
  }

  void Revoke() {
    absl::MutexLock lock(&mutex_);
    revoked_.store(true, std::memory_order_relaxed);
  }
  bool revoked() const { return revoked_.load(std::memory_order_relaxed); }

  // Waits until no transfer is under way. False if that takes longer.
  bool AwaitQuiet(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](uint32_t* transfers) { return *transfers == 0; }, &transfers_),
        limit);
  }

 private:
  const transport::RemoteWindow window_;
  const bool readable_;
  const bool writable_;
  absl::Mutex mutex_;
  std::atomic<bool> revoked_{false};  // written under mutex_
  uint32_t transfers_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_CLIENT_WINDOW_H_
