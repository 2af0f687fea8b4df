#include "src/invoke/executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace invoker {
namespace {

constexpr uint32_t kSessionNumbers = 1u << 16;

// An idle executor sleeps no longer than this at a time.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Start(transport::FabricChoice fabric,
                                                          const FunctionRegistry* functions,
                                                          const ExecutorOptions& options,
                                                          SessionFailed on_session_failed) {
  absl::StatusOr<std::unique_ptr<transport::Reactor>> reactor =
      transport::Reactor::Open(std::move(fabric), options.reactor);
  if (!reactor.ok()) return reactor.status();
  std::unique_ptr<Executor> executor(
      new Executor(*std::move(reactor), functions, options, std::move(on_session_failed)));
  executor->thread_ = std::thread([raw = executor.get()] { raw->ThreadMain(); });
  return executor;
}

Executor::Executor(std::unique_ptr<transport::Reactor> reactor, const FunctionRegistry* functions,
                   const ExecutorOptions& options, SessionFailed on_session_failed)
    : reactor_(std::move(reactor)),
      functions_(functions),
      options_(options),
      on_session_failed_(std::move(on_session_failed)),
      sessions_(kSessionNumbers),
      next_number_(options.first_session),
      next_epoch_(options.first_epoch),
      times_(functions->size()) {
  reactor_->set_handler(this);
}

Executor::~Executor() {
  Stop(absl::Seconds(1));
  transport::Reactor::Dispose(std::move(reactor_), quiet_);
}

void Executor::ThreadMain() {
  const bool may_sleep = options_.hot_timeout != absl::InfiniteDuration();
  const int64_t hot_ns = may_sleep ? absl::ToInt64Nanoseconds(options_.hot_timeout) : 0;
  int64_t idle_since_ns = transport::MonotonicNs();
  uint32_t idle_turns = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    const uint64_t tokens_before = tokens_;
    turn_began_ns_ = 0;
    const int events = reactor_->Poll();
    if (turn_began_ns_ != 0) busy_.store(false, std::memory_order_relaxed);
    if (!dirty_.empty()) FlushSessions();
    if (!may_sleep) continue;
    if (events != 0 || tokens_ != tokens_before || !dirty_.empty()) {
      idle_turns = 0;
      continue;
    }
    // The clock is read on the first idle turn and then now and then.
    if (idle_turns++ == 0) idle_since_ns = transport::MonotonicNs();
    if (idle_turns % 64 != 0 && hot_ns > 0) continue;
    if (transport::MonotonicNs() - idle_since_ns >= hot_ns) reactor_->Wait(kLongestSleep);
  }
  while (reactor_->health().ok() && (reactor_->operations().outstanding() > 0 || !dirty_.empty()) &&
         transport::MonotonicNs() < stop_deadline_ns_.load()) {
    turn_began_ns_ = 0;
    reactor_->Poll();
    FlushSessions();
  }
  quiet_ = numbers_.empty() && !reactor_->has_retired();
  while (!numbers_.empty()) EndSession(numbers_.back());
  absl::MutexLock lock(&stopped_mutex_);
  stopped_ = true;
  // Nobody can put a task after this, and those put before still run.
  reactor_->RunTasks();
}

void Executor::OnToken(uint32_t token) {
  ++tokens_;
  const std::optional<Immediate> immediate = Immediate::Decode(token);
  if (!immediate.has_value() || immediate->kind == MessageKind::kResponse ||
      sessions_[immediate->session] == nullptr) {
    ++unknown_doorbells_;
    return;
  }
  if (turn_began_ns_ == 0) {
    turn_began_ns_ = transport::MonotonicNs();
    busy_.store(true, std::memory_order_relaxed);
  } else if (!dirty_.empty() && dirty_.back() != immediate->session) {
    // What another session has ready does not wait for this one's functions.
    FlushSessions();
  }
  ExecutorSession& session = *sessions_[immediate->session];
  const bool was_pending = session.pending();
  session.OnDoorbell(immediate->kind, immediate->cell, turn_began_ns_);
  if (!was_pending) dirty_.push_back(immediate->session);
}

void Executor::FlushSessions() {
  size_t kept = 0;
  for (uint16_t number : dirty_) {
    ExecutorSession* session = sessions_[number].get();
    if (session != nullptr && !session->Flush()) dirty_[kept++] = number;
  }
  dirty_.resize(kept);
}

void Executor::OnTick(int64_t now_ns) {
  static_cast<void>(now_ns);
  const absl::Status& health = reactor_->health();
  if (!health.ok()) healthy_.store(false, std::memory_order_relaxed);
  for (size_t i = numbers_.size(); i-- > 0;) {
    const uint16_t number = numbers_[i];
    const absl::Status status = health.ok() ? sessions_[number]->failure() : health;
    if (!status.ok()) FailSession(number, status);
  }
}

void Executor::FailSession(uint16_t number, const absl::Status& status) {
  const SessionKey key = {number, sessions_[number]->epoch()};
  EndSession(number);
  on_session_failed_(key, status);
}

void Executor::EndSession(uint16_t number) {
  const ExecutorSessionCounters& counters = sessions_[number]->counters();
  ended_.executed += counters.executed;
  ended_.refused += counters.refused;
  ended_.dropped += counters.dropped.total();
  sessions_[number].reset();
  numbers_.erase(std::find(numbers_.begin(), numbers_.end(), number));
  dirty_.erase(std::remove(dirty_.begin(), dirty_.end(), number), dirty_.end());
  live_sessions_.fetch_sub(1, std::memory_order_relaxed);
}

absl::StatusOr<uint16_t> Executor::FreeNumber() {
  for (uint32_t tries = 0; tries < kSessionNumbers; ++tries) {
    const uint16_t number = static_cast<uint16_t>(next_number_++);
    if (sessions_[number] == nullptr) return number;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("the executor has ", kSessionNumbers, " sessions open, which is all it can"));
}

ExecutorSession* Executor::Find(SessionKey key) {
  ExecutorSession* session = sessions_[key.number].get();
  return session != nullptr && session->epoch() == key.epoch ? session : nullptr;
}

bool Executor::RunOnThread(std::function<void()> task) {
  absl::Notification done;
  {
    absl::MutexLock lock(&stopped_mutex_);
    if (stopped_) return false;
    reactor_->Submit([&task, &done] {
      task();
      done.Notify();
    });
  }
  done.WaitForNotification();
  return true;
}

absl::StatusOr<bootstrap::OpenSessionReply> Executor::OpenSession(
    const bootstrap::OpenSessionRequest& request, transport::Notification notification) {
  // Mapped here, so that the thread only registers.
  absl::StatusOr<transport::HostBuffer> window =
      transport::HostBuffer::Allocate(request.window_bytes);
  if (!window.ok()) return window.status();
  absl::StatusOr<transport::HostBuffer> staging =
      transport::HostBuffer::Allocate(request.window_bytes);
  if (!staging.ok()) return staging.status();
  absl::StatusOr<bootstrap::OpenSessionReply> reply =
      absl::UnavailableError("the executor has stopped");
  RunOnThread([&] {
    reply = OpenOnThread(request, notification, *std::move(window), *std::move(staging));
  });
  return reply;
}

absl::StatusOr<bootstrap::OpenSessionReply> Executor::OpenOnThread(
    const bootstrap::OpenSessionRequest& request, transport::Notification notification,
    transport::HostBuffer request_window, transport::HostBuffer response_staging) {
  if (draining_) return absl::UnavailableError("the worker is shutting down");
  if (!reactor_->health().ok()) return reactor_->health();
  absl::StatusOr<uint16_t> number = FreeNumber();
  if (!number.ok()) return number.status();
  ExecutorSession::Parts parts;
  parts.reactor = reactor_.get();
  parts.functions = functions_;
  parts.draining = &draining_;
  parts.times = &times_;
  parts.number = *number;
  parts.epoch = next_epoch_++;
  parts.first_sequence = request.first_sequence;
  parts.notification = notification;
  parts.request_window = std::move(request_window);
  parts.response_staging = std::move(response_staging);
  absl::StatusOr<std::unique_ptr<ExecutorSession>> session =
      ExecutorSession::Open(std::move(parts), request);
  if (!session.ok()) return session.status();
  bootstrap::OpenSessionReply reply;
  reply.executor = options_.index;
  reply.endpoint_address = reactor_->address();
  reply.request_window = (*session)->request_window();
  reply.request_session = *number;
  reply.epoch = (*session)->epoch();
  reply.notification = notification;
  sessions_[*number] = *std::move(session);
  numbers_.push_back(*number);
  live_sessions_.fetch_add(1, std::memory_order_relaxed);
  return reply;
}

absl::Status Executor::SwitchNotification(SessionKey key, transport::Notification notification) {
  absl::Status status = absl::NotFoundError("the session has ended");
  RunOnThread([&] {
    if (ExecutorSession* session = Find(key); session != nullptr) {
      session->SetNotification(notification);
      status = absl::OkStatus();
    }
  });
  return status;
}

void Executor::CloseSessionLater(SessionKey key) {
  absl::MutexLock lock(&stopped_mutex_);
  if (stopped_) return;
  reactor_->Submit([this, key] {
    if (Find(key) != nullptr) EndSession(key.number);
  });
}

absl::Status Executor::CloseSession(SessionKey key) {
  absl::Status status = absl::NotFoundError("the session has ended");
  RunOnThread([&] {
    if (Find(key) != nullptr) {
      EndSession(key.number);
      status = absl::OkStatus();
    }
  });
  return status;
}

ExecutorCounters Executor::Counters() {
  ExecutorCounters sum;
  const auto add = [&] {
    sum = ended_;
    for (uint16_t number : numbers_) {
      const ExecutorSessionCounters& counters = sessions_[number]->counters();
      sum.executed += counters.executed;
      sum.refused += counters.refused;
      sum.dropped += counters.dropped.total();
    }
    sum.unknown_doorbells = unknown_doorbells_;
    sum.live_sessions = numbers_.size();
  };
  // A thread that has stopped changes nothing any more.
  if (!RunOnThread(add)) add();
  return sum;
}

void Executor::Stop(absl::Duration limit) {
  if (!thread_.joinable()) return;
  stop_deadline_ns_ =
      transport::MonotonicNs() + absl::ToInt64Nanoseconds(std::min(limit, absl::Hours(24 * 365)));
  Drain();
  RunOnThread([this] { stop_ = true; });
  thread_.join();
}

}  // namespace invoker
