#include "src/invoke/session_watch.h"

#include "absl/strings/str_cat.h"

namespace invoker {

void SessionWatch::Begin(std::shared_ptr<CallDriver> driver) {
  absl::MutexLock lock(&mutex_);
  driver_ = std::move(driver);
  handle_ = 0;
  early_.clear();
}

void SessionWatch::Opened(uint64_t handle) {
  std::shared_ptr<CallDriver> driver;
  std::string reason;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = handle;
    for (const auto& [closed, why] : early_) {
      if (closed != handle) continue;
      driver = driver_;
      reason = absl::StrCat("the worker ended the session: ", why);
    }
    early_.clear();
    if (!lost_.ok()) {
      driver = driver_;
      reason = std::string(lost_.message());
    }
  }
  if (driver != nullptr) Fail(driver.get(), reason);
}

uint64_t SessionWatch::End() {
  absl::MutexLock lock(&mutex_);
  driver_.reset();
  early_.clear();
  return std::exchange(handle_, 0);
}

absl::Status SessionWatch::lost() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

void SessionWatch::OnSessionClosed(uint64_t handle, absl::string_view reason) {
  std::shared_ptr<CallDriver> driver;
  {
    absl::MutexLock lock(&mutex_);
    if (driver_ == nullptr) return;
    if (handle_ == 0) {
      early_.emplace_back(handle, std::string(reason));
      return;
    }
    if (handle != handle_) return;
    driver = driver_;
  }
  Fail(driver.get(), absl::StrCat("the worker ended the session: ", reason));
}

void SessionWatch::OnLost(const absl::Status& reason) {
  std::shared_ptr<CallDriver> driver;
  {
    absl::MutexLock lock(&mutex_);
    lost_ = reason;
    driver = driver_;
  }
  if (driver != nullptr) Fail(driver.get(), reason.message());
}

void SessionWatch::Fail(CallDriver* driver, absl::string_view reason) const {
  driver->FailAfterDelivery(absl::UnavailableError(
      absl::StrCat("the session with the worker at ", worker_, " has ended: ", reason)));
}

}  // namespace invoker
