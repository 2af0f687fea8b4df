#include "invoker/registered_window.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invoker/client.h"
#include "src/invoke/client/registered_window_state.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {
namespace {

// Between two times that the worker is asked whether its transfers have ended.
constexpr int64_t kDrivingNs = 20'000'000;
// For the worker to answer. One that is silent ends the session, which is looked for in between.
constexpr absl::Duration kAnswerLimit = absl::Seconds(1);

transport::RegionUse UseFor(WindowAccess access) {
  switch (access) {
    case WindowAccess::kRead:
      return transport::RegionUse::kRemoteSource;
    case WindowAccess::kWrite:
      return transport::RegionUse::kRemoteSink;
    case WindowAccess::kReadWrite:
      return transport::RegionUse::kRemoteSourceSink;
  }
  return transport::RegionUse::kRemoteSourceSink;
}

}  // namespace

absl::StatusOr<RegisteredWindow> Client::RegisterWindow(void* data, size_t size,
                                                        WindowAccess access) {
  return RegisterWindowWithin(data, size, access, absl::InfiniteDuration());
}

absl::StatusOr<RegisteredWindow> Client::RegisterWindowWithin(void* data, size_t size,
                                                              WindowAccess access,
                                                              absl::Duration timeout) {
  if (data == nullptr || size == 0) {
    return absl::InvalidArgumentError("a window of no bytes cannot be registered");
  }
  const transport::Profile& profile = driver_->reactor().profile();
  if (access != WindowAccess::kWrite && !profile.remote_reads) {
    return absl::FailedPreconditionError(
        absl::StrCat("fabric ", profile.provider,
                     " has no remote reads, so that the executor cannot fetch a large input; send "
                     "it in pieces of at most ",
                     max_payload(), " bytes"));
  }
  if (absl::Status status = driver_->status(); !status.ok()) return status;
  if (timeout <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("the timeout passed before the memory was registered");
  }
  absl::StatusOr<transport::MemoryRegion> region =
      driver_->RegisterMemory(transport::HostBuffer::Borrow(data, size), UseFor(access));
  if (!region.ok()) return region.status();
  auto state = std::make_unique<RegisteredWindow::State>();
  state->driver = driver_;
  state->connection = connection_.get();
  state->access = access;
  state->region = *std::move(region);
  absl::StatusOr<uint16_t> number = connection_->RegisterWindow(
      {state->region.remote_base(), size, state->region.key()}, access != WindowAccess::kWrite,
      access != WindowAccess::kRead, timeout);
  if (!number.ok()) {
    driver_->CloseMemory(std::move(state->region));
    return number.status();
  }
  state->number = *number;
  return RegisteredWindow(std::move(state));
}

RegisteredWindow::RegisteredWindow(std::unique_ptr<State> state) : state_(std::move(state)) {}
RegisteredWindow::RegisteredWindow(RegisteredWindow&& other) noexcept = default;

RegisteredWindow& RegisteredWindow::operator=(RegisteredWindow&& other) noexcept {
  state_.swap(other.state_);
  return *this;
}

RegisteredWindow::~RegisteredWindow() {
  if (state_ == nullptr) return;
  CallDriver& driver = *state_->driver;
  if (!TakeBack()) {
    driver.Fail(absl::UnavailableError(absl::StrCat(
        "the program took back memory that the worker's transfers have not left alone for ",
        absl::FormatDuration(kForgetLimit))));
  }
  driver.RunLocked([this, &driver] {
    for (const std::shared_ptr<WindowUse>& use : state_->uses) {
      // The call goes on with its other window, if that is still lent.
      if (--use->holders > 0) continue;
      if (use->busy) driver.ForgetBusyLocked(&use->busy);
    }
    state_->uses.clear();
  });
  driver.CloseMemory(std::move(state_->region));
}

// True once the worker does nothing with the memory any more, or the session has ended.
bool RegisteredWindow::TakeBack() {
  CallDriver& driver = *state_->driver;
  const auto unused = [this] {
    return std::none_of(state_->uses.begin(), state_->uses.end(),
                        [](const std::shared_ptr<WindowUse>& use) { return use->busy; });
  };
  int64_t now_ns = transport::MonotonicNs();
  const int64_t deadline_ns = now_ns + absl::ToInt64Nanoseconds(kForgetLimit);
  // A session that has ended has no windows; nor may the connection be there any more.
  while (driver.status().ok()) {
    const absl::Duration left = absl::Nanoseconds(deadline_ns - now_ns);
    const absl::Status forgotten =
        state_->connection->ForgetWindow(state_->number, std::min(left, kAnswerLimit));
    if (forgotten.ok()) return true;
    now_ns = transport::MonotonicNs();
    // The executor's transfers end only while this side drives.
    if (driver.DriveUntil(unused, std::min(now_ns + kDrivingNs, deadline_ns))) {
      const absl::Duration rest = absl::Nanoseconds(deadline_ns - transport::MonotonicNs());
      // So that the worker has room for another. One that does not answer is not waited for again.
      if (!absl::IsUnavailable(forgotten) && driver.status().ok() && rest > kAnswerLimit) {
        state_->connection->ForgetWindow(state_->number, kAnswerLimit).IgnoreError();
      }
      return true;
    }
    if (now_ns >= deadline_ns) return false;
  }
  return true;
}

std::byte* RegisteredWindow::data() const { return state_->region.data(); }
size_t RegisteredWindow::size() const { return state_->region.size(); }
WindowAccess RegisteredWindow::access() const { return state_->access; }

}  // namespace invoker
