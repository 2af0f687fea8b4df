#include "src/invoke/executor/executor.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "src/base/random.h"
#include "src/base/start_thread.h"

namespace invoker {
namespace {

// An idle executor sleeps no longer than this at a time.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

// A fabric without sessions is polled on one turn in so many while others have some.
constexpr uint32_t kTurnsPerLeavingTurn = 64;

constexpr int kTurnsPerLook = 16;

uint64_t Draw() {
  // Without the kernel's, one that is at least another than the last time.
  return transport::DrawRandom().value_or(static_cast<uint64_t>(transport::MonotonicNs()));
}

absl::Status SessionHasEnded() { return absl::NotFoundError("the session has ended"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Start(
    std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
    const ExecutorOptions& options, SessionFailed on_session_failed) {
  std::unique_ptr<Executor> executor(
      new Executor(std::move(fabrics), functions, options, std::move(on_session_failed)));
  absl::Status started =
      transport::StartThread(&executor->thread_, [raw = executor.get()] { raw->ThreadMain(); });
  if (!started.ok()) return started;
  return executor;
}

Executor::Executor(std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
                   const ExecutorOptions& options, SessionFailed on_session_failed)
    : options_(options),
      functions_(*functions),
      always_hot_(options.hot_timeout == absl::InfiniteDuration()),
      hot_ns_(absl::ToInt64Nanoseconds(options.hot_timeout)) {
  shared_.watch = options.watch != nullptr ? options.watch : &own_watch_;
  shared_.functions = &functions_;
  shared_.on_session_failed = std::move(on_session_failed);
  shared_.on_unheard = options.on_unheard;
  shared_.times = FunctionTimes(functions_.size());
  shared_.index = options.index;
  shared_.bulk_budget =
      options.bulk_budget != nullptr ? options.bulk_budget : std::make_shared<BulkBudget>();
  shared_.quarantine_total = options.quarantine_total;
  shared_.next_epoch = options.first_epoch.value_or(static_cast<uint32_t>(Draw()));
  const uint16_t first_session = options.first_session.value_or(static_cast<uint16_t>(Draw()));
  transport::ReactorOptions reactor = options.reactor;
  if (always_hot_) reactor.use = transport::ReactorUse::kHot;
  std::vector<std::unique_ptr<EndpointSet>> second_lines;
  for (transport::FabricChoice& fabric : fabrics) {
    const uint16_t place = static_cast<uint16_t>(lines_.size());
    absl::StatusOr<transport::FabricChoice> copy = absl::NotFoundError("no second port");
    if (fabric.profile.wait_slows_polling) copy = transport::CopyOf(fabric);
    lines_.push_back(
        std::make_unique<EndpointSet>(place, std::move(fabric), &shared_, first_session, reactor));
    second_lines_.push_back(nullptr);
    if (!copy.ok()) continue;
    transport::ReactorOptions other = reactor;
    other.use = reactor.use == transport::ReactorUse::kHot ? transport::ReactorUse::kBlocking
                                                           : transport::ReactorUse::kHot;
    second_lines.push_back(
        std::make_unique<EndpointSet>(place, *std::move(copy), &shared_, first_session, other));
    second_lines_.back() = second_lines.back().get();
  }
  for (std::unique_ptr<EndpointSet>& line : second_lines) lines_.push_back(std::move(line));
  live_.reserve(lines_.size());
  leaving_.reserve(lines_.size());
  reactors_.reserve(lines_.size());
}

Executor::~Executor() { Stop(absl::Seconds(1)); }

void Executor::ThreadMain() {
  if (options_.on_thread_start) options_.on_thread_start();
  int64_t idle_since_ns = 0;
  uint32_t idle_turns = 0;
  uint32_t turns = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (inbox_.HasTasks()) inbox_.RunAll();
    if (shared_.rearrange) Arrange();
    // Several turns for each look at what else there is, which rarely changes.
    const int turns_per_look = search_.idle() ? kTurnsPerLook : LookForRequests();
    if (live_.empty()) {
      // No call can come.
      EndPolling();
      PollLeaving();
      if (!shared_.rearrange) Sleep();
      idle_turns = 0;
      continue;
    }
    if (polling_since_ticks_ == 0) polling_since_ticks_ = ReadTicks();
    const bool may_sleep = !always_hot_.load(std::memory_order_relaxed);
    bool active = false;
    // One at least, however many tasks come.
    for (int i = 0; i < turns_per_look && (i == 0 || !inbox_.HasTasks()); ++i) {
      bool now = false;
      for (ExecutorEndpoint* port : live_) now |= port->Turn();
      active |= now;
      ++turns;
      if (!now && may_sleep) break;
    }
    if (turns >= kTurnsPerLeavingTurn) {
      turns = 0;
      PollLeaving();
      Publish();
    }
    if (awaits_first_) {
      awaits_first_ = !active;
      sched_yield();
    }
    if (!may_sleep) continue;
    if (active) {
      idle_turns = 0;
      continue;
    }
    const int64_t hot_ns = hot_ns_.load(std::memory_order_relaxed);
    // The clock is read on the first idle turn and then now and then.
    if (idle_turns++ == 0) idle_since_ns = transport::MonotonicNs();
    if (idle_turns % 64 != 0 && hot_ns > 0) continue;
    if (transport::MonotonicNs() - idle_since_ns < hot_ns) continue;
    if (search_.awaited()) continue;
    EndPolling();
    PollLeaving();
    if (!shared_.rearrange) Sleep();
  }
  FinishPorts();
  EndPolling();
  absl::MutexLock lock(&stopped_mutex_);
  stopped_ = true;
  // Nobody can put a task after this, and those put before still run.
  inbox_.RunAll();
  // Every session has ended, of which all who still ask are told.
  const size_t cases = search_.cases();
  for (size_t told = 0; told < cases; told += RequestSearch::kCasesPerLook) Search();
}

// How many turns there may be before it is to be called again.
int Executor::LookForRequests() {
  // Tasks may have come instead of a turn.
  const uint64_t turns = live_.empty() ? 0 : live_.front()->reactor()->counters().turns;
  if (!live_.empty() && turns == turns_at_look_) return 1;
  turns_at_look_ = turns;
  Search();
  return 1;
}

void Executor::Search() {
  const auto find = [this](SessionKey key,
                           uint64_t sequence) -> absl::StatusOr<bootstrap::RequestState> {
    ExecutorEndpoint* port = PortOf(key);
    if (port == nullptr) return SessionHasEnded();
    return port->Find(key)->FindRequest(sequence);
  };
  search_.Look(find, transport::MonotonicNs());
}

// Sorts the ports anew. The reactors to sleep on are those of the ports that are polled.
void Executor::Arrange() {
  shared_.rearrange = false;
  live_.clear();
  leaving_.clear();
  reactors_.clear();
  checking_ = false;
  for (const std::unique_ptr<EndpointSet>& line : lines_) {
    line->PutSettledAway();
    line->ForEach([this](ExecutorEndpoint* port) {
      if (!port->open() || (!port->live() && port->settled())) return;
      (port->live() ? live_ : leaving_).push_back(port);
      reactors_.push_back(port->reactor());
      checking_ |= port->reactor()->awaits_check();
    });
  }
}

// Providers accept connections only when polled, one each time, and announce them to nobody. There
// may be thousands before the one that a check has made.
void Executor::Sleep() {
  if (checking_) {
    sched_yield();
  } else {
    inbox_.Sleep(reactors_, kLongestSleep);
  }
}

void Executor::PollLeaving() {
  for (ExecutorEndpoint* port : leaving_) {
    port->Turn();
    if (port->settled()) shared_.rearrange = true;
  }
}

void Executor::Publish() {
  for (ExecutorEndpoint* port : live_) port->Publish();
  UsageCounters& usage = shared_.usage;
  if (polling_since_ticks_ != 0) {
    const uint64_t now = ReadTicks();
    shared_.scale.Refine(now);
    awake_ns_ += shared_.scale.ToNs(now - polling_since_ticks_);
    polling_since_ticks_ = now;
    // Functions of ports that are polled now and then are none of the time awake.
    if (awake_ns_ > usage.function_ns + usage.polling_ns) {
      usage.polling_ns = awake_ns_ - usage.function_ns;
    }
  }
  shared_.watch->usage().Set(usage);
}

void Executor::EndPolling() {
  Publish();
  polling_since_ticks_ = 0;
}

// Lets what is ready leave, while there is time, and ends every session.
void Executor::FinishPorts() {
  bool finishing = true;
  while (finishing && transport::MonotonicNs() < stop_deadline_ns_.load()) {
    finishing = false;
    for (const std::unique_ptr<EndpointSet>& line : lines_) {
      line->ForEach([&finishing](ExecutorEndpoint* port) {
        if (!port->open() || !port->finishing()) return;
        port->Turn();
        finishing = true;
      });
    }
  }
  for (const std::unique_ptr<EndpointSet>& line : lines_) {
    line->ForEach([](ExecutorEndpoint* port) {
      if (port->open()) port->EndAll();
    });
  }
}

void Executor::SetHotTimeout(absl::Duration hot_timeout) {
  hot_ns_.store(absl::ToInt64Nanoseconds(hot_timeout), std::memory_order_relaxed);
  always_hot_.store(hot_timeout == absl::InfiniteDuration(), std::memory_order_relaxed);
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

bool Executor::RunLater(std::function<void()> task) {
  absl::MutexLock lock(&stopped_mutex_);
  if (!stopped_) inbox_.Submit(std::move(task));
  return !stopped_;
}

absl::Status Executor::SwitchNotification(SessionKey key, transport::Notification notification) {
  absl::Status status = SessionHasEnded();
  RunOnThread([&] {
    if (ExecutorEndpoint* port = PortOf(key); port != nullptr) {
      port->Find(key)->SetNotification(notification);
      status = absl::OkStatus();
    }
  });
  return status;
}

absl::StatusOr<bootstrap::RequestState> Executor::FindRequest(SessionKey key, uint64_t sequence) {
  {
    absl::MutexLock lock(&stopped_mutex_);
    if (stopped_) return SessionHasEnded();
  }
  return search_.Ask(key, sequence, *shared_.watch, RequestSearch::kPatience, [this] {
    absl::MutexLock lock(&stopped_mutex_);
    // One task is enough for all who ask while a function runs.
    if (!stopped_ && !woken_.exchange(true)) inbox_.Submit([this] { woken_.exchange(false); });
  });
}

void Executor::CloseSessionLater(SessionKey key, std::function<void()> closed) {
  const bool runs = RunLater([this, key, closed] {
    if (ExecutorEndpoint* port = PortOf(key); port != nullptr) port->EndSession(key.number);
    closed();
  });
  if (!runs) closed();
}

absl::Status Executor::CloseSession(SessionKey key) {
  absl::Status status = SessionHasEnded();
  RunOnThread([&] {
    if (ExecutorEndpoint* port = PortOf(key); port != nullptr) {
      port->EndSession(key.number);
      status = absl::OkStatus();
    }
  });
  return status;
}

ExecutorCounters Executor::Counters() {
  ExecutorCounters sum;
  const auto add = [&] {
    for (const std::unique_ptr<EndpointSet>& line : lines_) sum.Add(line->Counters());
    LoadShared(shared_.watch->dropped(), &sum.dropped);
    Publish();
    const UsageCounters& usage = shared_.usage;
    sum.function_ns = usage.function_ns;
    sum.polling_ns = usage.polling_ns;
    sum.bytes_in = usage.bytes_in;
    sum.bytes_out = usage.bytes_out;
  };
  // A thread that has stopped changes nothing any more.
  if (!RunOnThread(add)) add();
  return sum;
}

std::vector<Executor::FabricUse> Executor::Uses() {
  std::vector<FabricUse> uses;
  const auto add = [&] {
    for (size_t fabric = 0; fabric < second_lines_.size(); ++fabric) {
      FabricUse use;
      for (const EndpointSet* line : {lines_[fabric].get(), second_lines_[fabric]}) {
        if (line == nullptr) continue;
        line->ForEach([&use](ExecutorEndpoint* port) {
          if (!port->open()) return;
          use.open = true;
          use.live_sessions += port->live_sessions();
          use.turns += port->reactor()->counters().turns;
        });
      }
      uses.push_back(use);
    }
  };
  if (!RunOnThread(add)) add();
  return uses;
}

absl::Status Executor::AddFunctions(std::vector<FunctionEntry> entries) {
  absl::Status status = absl::UnavailableError("the executor has stopped");
  RunOnThread([&] {
    status = functions_.AddAll(std::move(entries));
    shared_.times.Grow(functions_.size());
  });
  return status;
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
