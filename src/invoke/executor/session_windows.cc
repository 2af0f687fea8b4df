#include "src/invoke/executor/session_windows.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/wire/sequence_window.h"

namespace invoker {
namespace {

// Two of each call that there can be.
constexpr size_t kMostWindows = 2 * SequenceWindow::kWidth;

}  // namespace

absl::StatusOr<uint16_t> SessionWindows::Register(const bootstrap::WindowDescriptor& window,
                                                  bool readable, bool writable) {
  if (window.length == 0 || window.base > std::numeric_limits<uint64_t>::max() - window.length) {
    return absl::InvalidArgumentError(
        absl::StrCat("a window of ", window.length,
                     " bytes is not possible: it needs at least one, and to end in the address "
                     "space"));
  }
  if (!readable && !writable) {
    return absl::InvalidArgumentError("a window that the executor may neither read nor write");
  }
  if (readable && !remote_reads_) {
    return absl::FailedPreconditionError(
        absl::StrCat("fabric ", provider_,
                     " has no remote reads, so that the executor cannot fetch a large input; send "
                     "it in pieces that fit in the session's window"));
  }
  absl::MutexLock lock(&mutex_);
  if (windows_.size() >= kMostWindows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the session has ", windows_.size(), " windows, which is all it can"));
  }
  do {
    ++last_number_;
  } while (last_number_ == 0 || windows_.contains(last_number_));
  windows_[last_number_] = std::make_shared<ClientWindow>(
      transport::RemoteWindow{peer_, window.base, window.length, window.key}, readable, writable);
  return last_number_;
}

std::shared_ptr<ClientWindow> SessionWindows::Find(uint16_t number) const {
  absl::MutexLock lock(&mutex_);
  const auto found = windows_.find(number);
  return found == windows_.end() || found->second->revoked() ? nullptr : found->second;
}

std::shared_ptr<ClientWindow> SessionWindows::Revoke(uint16_t number) {
  absl::MutexLock lock(&mutex_);
  const auto found = windows_.find(number);
  if (found == windows_.end()) return nullptr;
  found->second->Revoke();
  return found->second;
}

void SessionWindows::Remove(uint16_t number) {
  absl::MutexLock lock(&mutex_);
  windows_.erase(number);
}

}  // namespace invoker
