// Finds the windows of an executor's sessions, for any thread. Keeps none of them alive: they go
// with their session.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_LENT_WINDOWS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_LENT_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "src/invoke/executor/session/session_key.h"
#include "src/invoke/executor/session_windows.h"

namespace invoker {

// Any thread; does not block.
class LentWindows {
 public:
  void Add(SessionKey key, const std::shared_ptr<SessionWindows>& windows) {
    absl::MutexLock lock(&mutex_);
    if (sessions_.size() >= purge_at_) {
      absl::erase_if(sessions_, [](const auto& entry) { return entry.second.expired(); });
      purge_at_ = kLeastPurge + 2 * sessions_.size();
    }
    sessions_[KeyOf(key)] = windows;
  }
  // nullptr if the session has ended.
  std::shared_ptr<SessionWindows> Find(SessionKey key) {
    absl::MutexLock lock(&mutex_);
    const auto found = sessions_.find(KeyOf(key));
    return found == sessions_.end() ? nullptr : found->second.lock();
  }

 private:
  using Key = std::tuple<uint16_t, uint16_t, uint32_t>;
  static Key KeyOf(SessionKey key) { return {key.fabric, key.number, key.epoch}; }

  static constexpr size_t kLeastPurge = 64;

  absl::Mutex mutex_;
  absl::flat_hash_map<Key, std::weak_ptr<SessionWindows>> sessions_ ABSL_GUARDED_BY(mutex_);
  // Entries of sessions that have ended go when there are so many.
  size_t purge_at_ ABSL_GUARDED_BY(mutex_) = kLeastPurge;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_LENT_WINDOWS_H_
