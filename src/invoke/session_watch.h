// Brings what a lease hears of its session to the session's calls.
//
// A lease may have several sessions one after the other, while a client looks for a fabric that
// works. What is heard of a session before the client knows its handle is kept until it does.

#ifndef INVOKER_SRC_INVOKE_SESSION_WATCH_H_
#define INVOKER_SRC_INVOKE_SESSION_WATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/invoke/call_driver.h"

namespace invoker {

// Any thread.
class SessionWatch {
 public:
  // `worker` is for messages: "HOST:PORT".
  explicit SessionWatch(std::string worker) : worker_(std::move(worker)) {}

  // A session of this driver is about to be opened, in place of the one before.
  void Begin(std::shared_ptr<CallDriver> driver) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has been opened.
  void Opened(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing more is wanted of it. Returns its handle, or 0.
  uint64_t End() ABSL_LOCKS_EXCLUDED(mutex_);

  // OK, or why the lease is lost.
  absl::Status lost() const ABSL_LOCKS_EXCLUDED(mutex_);

  // What the lease hears (LeaseEvents). Block for some milliseconds while calls are under way.
  void OnSessionClosed(uint64_t handle, absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLost(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Fail(CallDriver* driver, absl::string_view reason) const;

  const std::string worker_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<CallDriver> driver_ ABSL_GUARDED_BY(mutex_);
  uint64_t handle_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: not known yet
  // Sessions that were closed before the handle was known.
  std::vector<std::pair<uint64_t, std::string>> early_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_WATCH_H_
