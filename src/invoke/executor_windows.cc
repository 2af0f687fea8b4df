// Executor: memory that clients have registered, and take back.

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/executor.h"

namespace invoker {
namespace {

// For transfers that are under way. They may need the client to drive, which asks again.
constexpr absl::Duration kQuietLimit = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<uint16_t> Executor::RegisterWindow(SessionKey key,
                                                  const bootstrap::WindowDescriptor& window,
                                                  bool readable, bool writable) {
  absl::StatusOr<BulkSession::Registered> registered = absl::NotFoundError("the session has ended");
  RunOnThread([&] {
    if (FabricPort* port = PortOf(key); port != nullptr) {
      registered = port->Find(key)->RegisterWindow(window, readable, writable);
    }
  });
  if (!registered.ok()) return registered.status();
  lent_.Add(key, registered->number, registered->window);
  return registered->number;
}

absl::Status Executor::ForgetWindow(SessionKey key, uint16_t number) {
  const std::shared_ptr<ClientWindow> window = lent_.Find(key, number);
  if (window == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the session has no window ", number, ", or has ended"));
  }
  // At once, also if the thread is inside a function. Calls that name it end when it comes back.
  window->Revoke();
  RunLater([this, key, number] {
    if (FabricPort* port = PortOf(key); port != nullptr) {
      port->Find(key)->ForgetWindow(number).IgnoreError();
    }
  });
  if (!window->AwaitQuiet(kQuietLimit)) {
    return absl::DeadlineExceededError(
        absl::StrCat("transfers of window ", number, " are under way"));
  }
  lent_.Remove(key, number);
  return absl::OkStatus();
}

}  // namespace invoker
