// Executor: memory that clients register, and take back. Nothing here waits for the thread.

#include <memory>

#include "absl/strings/str_cat.h"
#include "src/invoke/executor/executor.h"

namespace invoker {
absl::StatusOr<uint16_t> Executor::RegisterWindow(SessionKey key,
                                                  const bootstrap::WindowDescriptor& window,
                                                  bool readable, bool writable) {
  const std::shared_ptr<SessionWindows> windows = lent_.Find(key);
  if (windows == nullptr) return absl::NotFoundError("the session has ended");
  return windows->Register(window, readable, writable);
}

absl::Status Executor::ForgetWindow(SessionKey key, uint16_t number) {
  const std::shared_ptr<SessionWindows> windows = lent_.Find(key);
  const std::shared_ptr<ClientWindow> window =
      windows == nullptr ? nullptr : windows->Revoke(number);
  if (window == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the session has no window ", number, ", or has ended"));
  }
  // They may need the client to drive, which asks again: nobody else is to wait for that.
  if (!window->AwaitQuiet(absl::ZeroDuration())) {
    return absl::DeadlineExceededError(
        absl::StrCat("transfers of window ", number, " are under way"));
  }
  windows->Remove(number);
  return absl::OkStatus();
}

}  // namespace invoker
