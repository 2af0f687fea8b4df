#include "src/invoke/executor/executor.h"

#include <sched.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/time/clock.h"
#include "src/base/random.h"
#include "src/transport/fabric/registered_bytes.h"

namespace invoker {
namespace {

// An idle executor sleeps no longer than this at a time.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

// While endpoints with sessions are polled, endpoints without are polled every Nth turn.
constexpr uint32_t kTurnsPerLeavingTurn = 64;

// Everything but messages rarely changes, so it is looked at every Nth turn.
constexpr int kTurnsPerLook = 16;

// Without the kernel's random numbers, the clock gives a number that is at least another one than
// the last time.
uint64_t Draw() {
  return transport::DrawRandom().value_or(static_cast<uint64_t>(transport::MonotonicNs()));
}

transport::ReactorOptions ReactorOptionsOf(const ExecutorOptions& options) {
  transport::ReactorOptions reactor = options.reactor;
  if (options.hot_timeout == absl::InfiniteDuration()) reactor.use = transport::ReactorUse::kHot;
  reactor.shows_sleep = true;
  return reactor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Start(
    std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
    const ExecutorOptions& options, SessionFailed on_session_failed) {
  transport::HostBuffer own_meters;
  if (options.function_meters == nullptr) {
    absl::StatusOr<transport::HostBuffer> memory =
        transport::HostBuffer::Allocate(sizeof(FunctionMeters));
    if (!memory.ok()) return memory.status();
    own_meters = *std::move(memory);
  }
  FunctionMeters* const meters = options.function_meters != nullptr
                                     ? options.function_meters
                                     : reinterpret_cast<FunctionMeters*>(own_meters.data());
  for (size_t i = 0; i < fabrics.size(); ++i) meters->SetProvider(i, fabrics[i].profile.provider);
  std::unique_ptr<Executor> executor(
      new Executor(std::move(fabrics), functions, options, std::move(on_session_failed)));
  executor->own_meters_ = std::move(own_meters);
  executor->shared_.function_meters = meters;
  absl::Status started = executor->thread_.Start([raw = executor.get()] { raw->ThreadMain(); });
  if (!started.ok()) return started;
  return executor;
}

Executor::Executor(std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
                   const ExecutorOptions& options, SessionFailed on_session_failed)
    : options_(options),
      hot_timeout_(options.hot_timeout),
      endpoints_(std::move(fabrics), &shared_,
                 options.first_session.value_or(static_cast<uint16_t>(Draw())),
                 ReactorOptionsOf(options)),
      polled_(&shared_, &endpoints_) {
  shared_.watch = options.watch != nullptr ? options.watch : &own_watch_;
  shared_.functions = &functions_;
  shared_.deferred = std::make_shared<DeferredCallSet>(
      shared_.watch,
      [this](std::function<void()> task) { return thread_.RunLater(std::move(task)); });
  for (const FunctionEntry& entry : functions->entries()) functions_.Add(Wrap(entry)).IgnoreError();
  shared_.on_session_failed = std::move(on_session_failed);
  shared_.on_unheard = options.on_unheard;
  shared_.times = FunctionTimes(functions_.size());
  shared_.index = options.index;
  shared_.bulk_budget =
      options.bulk_budget != nullptr ? options.bulk_budget : std::make_shared<BulkBudget>();
  if (options.stores_data) shared_.store = std::make_shared<DataStore>(shared_.bulk_budget);
  shared_.quarantine_total = options.quarantine_total;
  shared_.next_epoch = options.first_epoch.value_or(static_cast<uint32_t>(Draw()));
}

Executor::~Executor() { Stop(absl::Seconds(1)); }

void Executor::ThreadMain() {
  assert(shared_.thread.IsSame());
  if (options_.on_thread_start) options_.on_thread_start();
  uint32_t turns = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    thread_.RunTasks();
    polled_.Arrange();
    shared_.thorough = awaits_first_ || !search_.idle();
    const int turns_per_look = search_.idle() ? kTurnsPerLook : LookForRequests();
    if (!polled_.live()) {
      // No call can come.
      Rest();
      hot_timeout_.Restart();
      continue;
    }
    polling_time_.Begin();
    const bool may_sleep = !hot_timeout_.infinite();
    bool active = false;
    // One turn at least, however many tasks come.
    for (int i = 0; i < turns_per_look && (i == 0 || !thread_.HasTasks()); ++i) {
      const bool now = polled_.Turn();
      active |= now;
      ++turns;
      if (!now && may_sleep) break;
    }
    if (turns >= kTurnsPerLeavingTurn) {
      turns = 0;
      polled_.PollLeaving();
      PublishUsage();
    }
    if (awaits_first_) {
      awaits_first_ = !active;
      sched_yield();
    }
    if (!may_sleep) continue;
    if (active) {
      hot_timeout_.Restart();
    } else if (hot_timeout_.IsOver() && !search_.awaited()) {
      Rest();
    }
  }
  FinishEndpoints();
  EndPolling();
  thread_.Finish([this] {
    // Every session has ended, and every question that waits is answered so.
    const size_t cases = search_.cases();
    for (size_t told = 0; told < cases; told += RequestSearch::kCasesPerLook) Search();
  });
}

// Returns how many turns there may be before the next look.
int Executor::LookForRequests() {
  // Tasks may have come instead of a turn.
  const uint64_t turns = polled_.turns();
  if (polled_.live() && turns == turns_at_look_) return 1;
  turns_at_look_ = turns;
  Search();
  return 1;
}

void Executor::Search() {
  const auto find = [this](SessionKey key,
                           uint64_t sequence) -> absl::StatusOr<bootstrap::RequestState> {
    ExecutorEndpoint* endpoint = endpoints_.Find(key);
    if (endpoint == nullptr) return absl::NotFoundError("the session has ended");
    return endpoint->Find(key)->FindRequest(sequence);
  };
  search_.Look(find, transport::MonotonicNs());
}

// Sleeps until something comes. A provider accepts connections only when polled, one at each poll,
// and wakes no thread for them: there may be thousands before the one that a check has made. So
// while a check is awaited the thread yields instead.
void Executor::Rest() {
  EndPolling();
  polled_.PollLeaving();
  if (shared_.rearrange) return;
  if (polled_.awaits_check()) {
    sched_yield();
  } else {
    thread_.Sleep(polled_.reactors(), kLongestSleep);
  }
}

// Shows all that has been used, up to now.
void Executor::PublishUsage() {
  polled_.Publish();
  polling_time_.AddTo(&shared_.scale, &shared_.usage);
  shared_.watch->usage().Set(shared_.usage);
  shared_.watch->ShowRegistered(transport::RegisteredBytes::Sum());
  shared_.watch->ShowBatch(0);
}

// The thread will not poll for a while.
void Executor::EndPolling() {
  PublishUsage();
  polling_time_.End();
}

// Lets ready responses leave, while there is time, and ends every session.
void Executor::FinishEndpoints() {
  bool finishing = true;
  while (finishing && transport::MonotonicNs() < stop_deadline_ns_.load()) {
    finishing = false;
    endpoints_.ForEach([&finishing](ExecutorEndpoint* endpoint) {
      if (!endpoint->finishing()) return;
      endpoint->Turn();
      finishing = true;
    });
  }
  endpoints_.ForEach([](ExecutorEndpoint* endpoint) { endpoint->EndAll(); });
}

void Executor::RunAnyway(absl::FunctionRef<void()> task) {
  if (!thread_.Run(task)) task();
}

ExecutorCounters Executor::Counters() {
  ExecutorCounters sum;
  RunAnyway([&] {
    for (const std::unique_ptr<EndpointSet>& set : endpoints_.sets()) sum.Add(set->Counters());
    LoadShared(shared_.watch->dropped(), &sum.dropped);
    PublishUsage();
    const UsageCounters& usage = shared_.usage;
    sum.function_ns = usage.function_ns;
    sum.polling_ns = usage.polling_ns;
    sum.bytes_in = usage.bytes_in;
    sum.bytes_out = usage.bytes_out;
  });
  return sum;
}

std::vector<Executor::FabricUse> Executor::Uses() {
  std::vector<FabricUse> uses(endpoints_.fabrics());
  RunAnyway([&] {
    for (size_t fabric = 0; fabric < uses.size(); ++fabric) {
      FabricUse& use = uses[fabric];
      endpoints_.ForEachOf(fabric, [&use](ExecutorEndpoint* endpoint) {
        use.open = true;
        use.live_sessions += endpoint->live_sessions();
        use.turns += endpoint->reactor()->counters().turns;
      });
    }
  });
  return uses;
}

absl::Status Executor::AddFunctions(std::vector<FunctionEntry> entries) {
  absl::Status status = absl::UnavailableError("the executor has stopped");
  thread_.Run([&] {
    for (FunctionEntry& entry : entries) entry = Wrap(std::move(entry));
    status = functions_.AddAll(std::move(entries));
    shared_.times.Grow(functions_.size());
  });
  return status;
}

FunctionEntry Executor::Wrap(FunctionEntry entry) {
  if (entry.concurrency == 0) return entry;
  concurrent_.push_back(std::make_unique<ConcurrentFunction>(std::move(entry), &shared_.draining));
  return concurrent_.back()->Entry();
}

void Executor::Finish(absl::Duration limit) {
  if (!thread_.joinable()) return;
  const absl::Duration bounded = std::min(limit, absl::Hours(24 * 365));
  stop_deadline_ns_ = transport::MonotonicNs() + absl::ToInt64Nanoseconds(bounded);
  const absl::Time until = absl::Now() + bounded;
  Drain();
  // What is in hand may still begin on a thread of a function's.
  thread_.Run([] {});
  for (const std::unique_ptr<ConcurrentFunction>& function : concurrent_) function->Stop();
  shared_.deferred->AwaitNone(until);
}

void Executor::Stop(absl::Duration limit) {
  if (!thread_.joinable()) return;
  Finish(limit);
  thread_.Run([this] { stop_ = true; });
  thread_.Join();
  shared_.deferred->Close();
}

}  // namespace invoker
