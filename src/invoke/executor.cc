#include "src/invoke/executor.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"

namespace invoker {
namespace {

// An idle executor sleeps no longer than this at a time.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

// A fabric without sessions is polled on one turn in so many while others have some.
constexpr uint32_t kTurnsPerLeavingTurn = 64;

constexpr int kTurnsPerLook = 16;

// So many sessions make a poll without a wait object as slow as one with it.
constexpr uint32_t kFewSessions = 16;

}  // namespace

std::unique_ptr<Executor> Executor::Start(std::vector<transport::FabricChoice> fabrics,
                                          const FunctionRegistry* functions,
                                          const ExecutorOptions& options,
                                          SessionFailed on_session_failed) {
  std::unique_ptr<Executor> executor(
      new Executor(std::move(fabrics), functions, options, std::move(on_session_failed)));
  executor->thread_ = std::thread([raw = executor.get()] { raw->ThreadMain(); });
  return executor;
}

Executor::Executor(std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
                   const ExecutorOptions& options, SessionFailed on_session_failed)
    : options_(options) {
  shared_.functions = functions;
  shared_.on_session_failed = std::move(on_session_failed);
  shared_.times = FunctionTimes(functions->size());
  shared_.index = options.index;
  shared_.next_epoch = options.first_epoch;
  transport::ReactorOptions reactor = options.reactor;
  if (options.hot_timeout == absl::InfiniteDuration()) reactor.use = transport::ReactorUse::kHot;
  std::vector<std::unique_ptr<FabricPort>> second_ports;
  for (transport::FabricChoice& fabric : fabrics) {
    const uint16_t place = static_cast<uint16_t>(ports_.size());
    absl::StatusOr<transport::FabricChoice> copy = absl::NotFoundError("no second port");
    if (reactor.use == transport::ReactorUse::kHot && fabric.profile.wait_slows_polling) {
      copy = transport::CopyOf(fabric);
    }
    ports_.push_back(std::make_unique<FabricPort>(place, std::move(fabric), &shared_,
                                                  options.first_session, reactor));
    second_ports_.push_back(nullptr);
    if (!copy.ok()) continue;
    transport::ReactorOptions blocking = reactor;
    blocking.use = transport::ReactorUse::kBlocking;
    second_ports.push_back(std::make_unique<FabricPort>(place, *std::move(copy), &shared_,
                                                        options.first_session, blocking));
    second_ports_.back() = second_ports.back().get();
  }
  for (std::unique_ptr<FabricPort>& port : second_ports) ports_.push_back(std::move(port));
  live_.reserve(ports_.size());
  leaving_.reserve(ports_.size());
  reactors_.reserve(ports_.size());
}

Executor::~Executor() { Stop(absl::Seconds(1)); }

void Executor::ThreadMain() {
  const bool may_sleep = options_.hot_timeout != absl::InfiniteDuration();
  const int64_t hot_ns = may_sleep ? absl::ToInt64Nanoseconds(options_.hot_timeout) : 0;
  int64_t idle_since_ns = 0;
  uint32_t idle_turns = 0;
  uint32_t turns = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (inbox_.HasTasks()) inbox_.RunAll();
    if (shared_.rearrange) Arrange();
    if (live_.empty()) {
      // No call can come.
      PollLeaving();
      if (!shared_.rearrange) inbox_.Sleep(reactors_, kLongestSleep);
      idle_turns = 0;
      continue;
    }
    bool active = false;
    // Several turns for each look at what else there is, which rarely changes.
    for (int i = 0; i < kTurnsPerLook && !inbox_.HasTasks(); ++i) {
      bool now = false;
      for (FabricPort* port : live_) now |= port->Turn();
      active |= now;
      ++turns;
      if (!now && may_sleep) break;
    }
    if (turns >= kTurnsPerLeavingTurn) {
      turns = 0;
      PollLeaving();
    }
    if (!may_sleep) continue;
    if (active) {
      idle_turns = 0;
      continue;
    }
    // The clock is read on the first idle turn and then now and then.
    if (idle_turns++ == 0) idle_since_ns = transport::MonotonicNs();
    if (idle_turns % 64 != 0 && hot_ns > 0) continue;
    if (transport::MonotonicNs() - idle_since_ns >= hot_ns) inbox_.Sleep(reactors_, kLongestSleep);
  }
  FinishPorts();
  absl::MutexLock lock(&stopped_mutex_);
  stopped_ = true;
  // Nobody can put a task after this, and those put before still run.
  inbox_.RunAll();
}

// Sorts the ports anew. The reactors to sleep on are those of the ports that are polled.
void Executor::Arrange() {
  shared_.rearrange = false;
  live_.clear();
  leaving_.clear();
  reactors_.clear();
  for (const std::unique_ptr<FabricPort>& port : ports_) {
    if (!port->open() || (!port->live() && port->settled())) continue;
    (port->live() ? live_ : leaving_).push_back(port.get());
    reactors_.push_back(port->reactor());
  }
}

void Executor::PollLeaving() {
  for (FabricPort* port : leaving_) {
    port->Turn();
    if (port->settled()) shared_.rearrange = true;
  }
}

// Lets what is ready leave, while there is time, and ends every session.
void Executor::FinishPorts() {
  bool finishing = true;
  while (finishing && transport::MonotonicNs() < stop_deadline_ns_.load()) {
    finishing = false;
    for (const std::unique_ptr<FabricPort>& port : ports_) {
      if (!port->open() || !port->finishing()) continue;
      port->Turn();
      finishing = true;
    }
  }
  for (const std::unique_ptr<FabricPort>& port : ports_) {
    if (port->open()) port->EndAll();
  }
}

FabricPort& Executor::PortFor(size_t fabric) const {
  const bool many = ports_[fabric]->live_sessions() >= kFewSessions;
  return many && second_ports_[fabric] != nullptr ? *second_ports_[fabric] : *ports_[fabric];
}

FabricPort* Executor::PortOf(SessionKey key) {
  for (FabricPort* port : {ports_[key.fabric].get(), second_ports_[key.fabric]}) {
    if (port != nullptr && port->open() && port->Find(key) != nullptr) return port;
  }
  return nullptr;
}

bool Executor::RunOnThread(std::function<void()> task) {
  absl::Notification done;
  {
    absl::MutexLock lock(&stopped_mutex_);
    if (stopped_) return false;
    inbox_.Submit([&task, &done] {
      task();
      done.Notify();
    });
  }
  done.WaitForNotification();
  return true;
}

absl::StatusOr<bootstrap::OpenSessionReply> Executor::OpenSession(
    size_t fabric, const bootstrap::OpenSessionRequest& request,
    transport::Notification notification) {
  if (shared_.draining.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the worker is shutting down");
  }
  FabricPort& port = PortFor(fabric);
  // Mapped and opened here, so that the thread only registers.
  absl::StatusOr<transport::HostBuffer> window =
      transport::HostBuffer::Allocate(request.window_bytes);
  if (!window.ok()) return window.status();
  absl::StatusOr<transport::HostBuffer> staging =
      transport::HostBuffer::Allocate(request.window_bytes);
  if (!staging.ok()) return staging.status();
  absl::StatusOr<bootstrap::OpenSessionReply> reply =
      absl::UnavailableError("the executor has stopped");
  if (absl::Status status = port.Open(); !status.ok()) return status;
  RunOnThread([&] {
    if (shared_.draining.load(std::memory_order_relaxed)) {
      reply = absl::UnavailableError("the worker is shutting down");
      return;
    }
    reply = port.OpenSession(request, notification, *std::move(window), *std::move(staging));
  });
  return reply;
}

absl::Status Executor::SwitchNotification(SessionKey key, transport::Notification notification) {
  absl::Status status = absl::NotFoundError("the session has ended");
  RunOnThread([&] {
    if (FabricPort* port = PortOf(key); port != nullptr) {
      port->Find(key)->SetNotification(notification);
      status = absl::OkStatus();
    }
  });
  return status;
}

void Executor::CloseSessionLater(SessionKey key) {
  absl::MutexLock lock(&stopped_mutex_);
  if (stopped_) return;
  inbox_.Submit([this, key] {
    if (FabricPort* port = PortOf(key); port != nullptr) port->EndSession(key.number);
  });
}

absl::Status Executor::CloseSession(SessionKey key) {
  absl::Status status = absl::NotFoundError("the session has ended");
  RunOnThread([&] {
    if (FabricPort* port = PortOf(key); port != nullptr) {
      port->EndSession(key.number);
      status = absl::OkStatus();
    }
  });
  return status;
}

ExecutorCounters Executor::Counters() {
  ExecutorCounters sum;
  const auto add = [&] {
    for (const std::unique_ptr<FabricPort>& port : ports_) sum.Add(port->Counters());
  };
  // A thread that has stopped changes nothing any more.
  if (!RunOnThread(add)) add();
  return sum;
}

std::vector<Executor::FabricUse> Executor::Uses() {
  std::vector<FabricUse> uses;
  const auto add = [&] {
    for (size_t fabric = 0; fabric < second_ports_.size(); ++fabric) {
      FabricUse use;
      for (FabricPort* port : {ports_[fabric].get(), second_ports_[fabric]}) {
        if (port == nullptr || !port->open()) continue;
        use.open = true;
        use.live_sessions += port->live_sessions();
        use.turns += port->reactor()->counters().turns;
      }
      uses.push_back(use);
    }
  };
  if (!RunOnThread(add)) add();
  return uses;
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
