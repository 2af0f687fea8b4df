#include "src/invoke/connect/session_watch.h"

#include "absl/strings/str_cat.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {
namespace {

absl::Status Closed(absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat("the worker ended the session: ", reason));
}

}  // namespace

SessionWatch::SessionWatch(std::string worker, absl::Duration peer_timeout)
    : worker_(std::move(worker)),
      peer_timeout_(peer_timeout),
      path_(PathCheck::Within(peer_timeout)) {}

void SessionWatch::Begin(std::shared_ptr<CallDriver> driver) {
  absl::MutexLock lock(&mutex_);
  driver_ = std::move(driver);
  handle_ = 0;
  ended_ = absl::OkStatus();
  early_.clear();
  proven_ = false;
  path_ = PathCheck::Within(peer_timeout_);
}

void SessionWatch::Proven() {
  absl::MutexLock lock(&mutex_);
  proven_ = true;
}

void SessionWatch::Opened(uint64_t handle) {
  std::shared_ptr<CallDriver> driver;
  absl::Status reason;
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = handle;
    for (const auto& [closed, why] : early_) {
      if (closed == handle) reason = Closed(why);
    }
    early_.clear();
    if (!lost_.ok()) reason = lost_;
    refusal = refusal_;
    driver = driver_;
  }
  if (!refusal.ok()) driver->TakeNoMore(refusal);
  if (reason.ok()) return;
  driver->FailAfterDelivery(Ended(reason), DeliveryDeadlineNs());
  Tell(Ended(reason));
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
  driver->FailAfterDelivery(Ended(Closed(reason)), DeliveryDeadlineNs());
  Tell(Ended(Closed(reason)));
}

void SessionWatch::TakeNoMore(const absl::Status& reason) {
  std::shared_ptr<CallDriver> driver;
  {
    absl::MutexLock lock(&mutex_);
    refusal_ = reason;
    driver = driver_;
  }
  if (driver != nullptr) driver->TakeNoMore(reason);
}

void SessionWatch::AnnounceLost(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    lost_ = reason;
    if (driver_ == nullptr) return;
  }
  Tell(Ended(reason));
}

void SessionWatch::OnLost(const absl::Status& reason, int64_t deadline_ns) {
  std::shared_ptr<CallDriver> driver;
  {
    absl::MutexLock lock(&mutex_);
    lost_ = reason;
    driver = driver_;
  }
  if (driver == nullptr) return;
  driver->FailAfterDelivery(Ended(reason), deadline_ns);
  Tell(Ended(reason));
}

void SessionWatch::Tell(const absl::Status& reason) {
  std::function<void(const absl::Status&)> on_ended;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_.ok()) ended_ = reason;
    on_ended = std::exchange(on_ended_, nullptr);
  }
  if (on_ended) on_ended(reason);
}

void SessionWatch::set_on_ended(std::function<void(const absl::Status&)> on_ended) {
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    ended = ended_;
    if (ended.ok()) on_ended_ = std::move(on_ended);
  }
  if (!ended.ok() && on_ended) on_ended(ended);
}

void SessionWatch::CheckPath(Ask ask) {
  std::shared_ptr<CallDriver> driver;
  uint64_t handle = 0;
  uint64_t known = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (driver_ == nullptr || !proven_ || !lost_.ok()) return;
    driver = driver_;
    handle = handle_;
    known = path_.known_answers();
  }
  const PathView view = driver->ViewPathAfterTurns(known);
  PathCheck::Verdict verdict;
  std::optional<uint64_t> sequence;
  absl::string_view symptom;
  {
    absl::MutexLock lock(&mutex_);
    if (handle_ != handle) return;
    sequence = path_.Look(view, transport::MonotonicNs(), &verdict);
    symptom = path_.symptom();
  }
  if (verdict == PathCheck::Verdict::kBroken) return Break(driver.get(), symptom);
  if (sequence.has_value()) ask(handle, *sequence);
}

void SessionWatch::Answered(uint64_t handle, uint64_t sequence,
                            const absl::StatusOr<bootstrap::RequestState>& state) {
  std::shared_ptr<CallDriver> driver;
  absl::string_view symptom;
  {
    absl::MutexLock lock(&mutex_);
    if (handle_ != handle || driver_ == nullptr) return;
    if (path_.Answered(sequence, state, transport::MonotonicNs()) == PathCheck::Verdict::kFine) {
      return;
    }
    driver = driver_;
    symptom = path_.symptom();
  }
  Break(driver.get(), symptom);
}

uint64_t SessionWatch::Answers() const {
  std::shared_ptr<CallDriver> driver;
  {
    absl::MutexLock lock(&mutex_);
    if (driver_ == nullptr || handle_ == 0) return 0;
    driver = driver_;
  }
  // No session has had as many, so it does not look at every call.
  return driver->ViewPath(UINT64_MAX).answers;
}

void SessionWatch::Break(CallDriver* driver, absl::string_view symptom) {
  const absl::Status reason = Ended(absl::UnavailableError(
      absl::StrCat("the fabric's path is broken, though the bootstrap's is not: ", symptom)));
  driver->Fail(reason);
  Tell(reason);
}

int64_t SessionWatch::DeliveryDeadlineNs(absl::Duration limit) {
  return transport::MonotonicNs() + absl::ToInt64Nanoseconds(limit);
}

// What calls are told. A lease that ended by what ran under it says so itself.
absl::Status SessionWatch::Ended(const absl::Status& why) const {
  if (absl::IsAborted(why)) return why;
  return absl::UnavailableError(
      absl::StrCat("the session with the worker at ", worker_, " has ended: ", why.message()));
}

}  // namespace invoker
