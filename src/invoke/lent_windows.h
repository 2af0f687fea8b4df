// Where any thread finds the windows that an executor's clients have registered. Holds none of
// them: each goes with its session.

#ifndef INVOKER_SRC_INVOKE_LENT_WINDOWS_H_
#define INVOKER_SRC_INVOKE_LENT_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "src/invoke/client_window.h"
#include "src/invoke/fabric_port.h"

namespace invoker {

// Any thread; does not block.
class LentWindows {
 public:
  void Add(SessionKey key, uint16_t number, const std::shared_ptr<ClientWindow>& window) {
    absl::MutexLock lock(&mutex_);
    if (windows_.size() >= purge_at_) {
      absl::erase_if(windows_, [](const auto& entry) { return entry.second.expired(); });
      purge_at_ = kLeastPurge + 2 * windows_.size();
    }
    windows_[KeyOf(key, number)] = window;
  }
  // nullptr if there is none, or its session has ended.
  std::shared_ptr<ClientWindow> Find(SessionKey key, uint16_t number) {
    absl::MutexLock lock(&mutex_);
    const auto found = windows_.find(KeyOf(key, number));
    return found == windows_.end() ? nullptr : found->second.lock();
  }
  void Remove(SessionKey key, uint16_t number) {
    absl::MutexLock lock(&mutex_);
    windows_.erase(KeyOf(key, number));
  }

 private:
  using Key = std::tuple<uint16_t, uint16_t, uint32_t, uint16_t>;
  static Key KeyOf(SessionKey key, uint16_t number) {
    return {key.fabric, key.number, key.epoch, number};
  }

  static constexpr size_t kLeastPurge = 64;

  absl::Mutex mutex_;
  absl::flat_hash_map<Key, std::weak_ptr<ClientWindow>> windows_ ABSL_GUARDED_BY(mutex_);
  // Entries of sessions that have ended go when there are so many.
  size_t purge_at_ ABSL_GUARDED_BY(mutex_) = kLeastPurge;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_LENT_WINDOWS_H_
