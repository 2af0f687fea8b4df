// Executors without processes, which do what a test tells them.

#ifndef INVOKER_TESTS_LEASE_FAKE_SPAWNER_H_
#define INVOKER_TESTS_LEASE_FAKE_SPAWNER_H_

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "src/isolation/spawner/executor_spawner.h"

namespace invoker {

// What the fakes have in common; outlives them.
struct FakeMachine {
  absl::Mutex mutex;
  int alive ABSL_GUARDED_BY(mutex) = 0;
  int most_alive ABSL_GUARDED_BY(mutex) = 0;
  int spawned ABSL_GUARDED_BY(mutex) = 0;
  bool hold_spawns ABSL_GUARDED_BY(mutex) = false;
  int starting ABSL_GUARDED_BY(mutex) = 0;  // Spawns that are under way
  // Those whose end was asked for; with `late_ends` they come up all the same.
  int ended_starts ABSL_GUARDED_BY(mutex) = 0;
  bool late_ends ABSL_GUARDED_BY(mutex) = false;
  // Requests wait until their process has ended; and how many do.
  bool hold_requests ABSL_GUARDED_BY(mutex) = false;
  int waiting ABSL_GUARDED_BY(mutex) = 0;
  absl::Status refuse_spawn ABSL_GUARDED_BY(mutex);
  // Those whose next Load fails, by the order in which they were spawned.
  std::vector<bool> refuse_load ABSL_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<class FakeLife>> lives ABSL_GUARDED_BY(mutex);

  // Blocks until so many Spawns, or requests, are under way, or so many Spawns were to end.
  void AwaitStarting(int count) {
    absl::MutexLock lock(&mutex);
    const auto there = [this, count] { return starting >= count; };
    mutex.Await(absl::Condition(&there));
  }
  void AwaitEndedStarts(int count) {
    absl::MutexLock lock(&mutex);
    const auto there = [this, count] { return ended_starts >= count; };
    mutex.Await(absl::Condition(&there));
  }
  void AwaitWaiting(int count) {
    absl::MutexLock lock(&mutex);
    const auto there = [this, count] { return waiting >= count; };
    mutex.Await(absl::Condition(&there));
  }
  int Alive() {
    absl::MutexLock lock(&mutex);
    return alive;
  }
};

// A process's life, which ends once: by Stop, by the process's destruction, or by the test.
class FakeLife {
 public:
  FakeLife(FakeMachine* machine, ExecutorProcess::Events events)
      : machine_(machine), events_(std::move(events)) {}

  void End(const ExecutorEnd& end) {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return;
      ended_ = true;
    }
    {
      absl::MutexLock lock(&machine_->mutex);
      --machine_->alive;
    }
    events_.on_ended(end);
  }
  void AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended_));
  }
  void CloseSession(uint64_t handle, absl::string_view reason) {
    events_.on_session_closed(handle, reason);
  }
  void Downgrade() { events_.on_downgraded("fabric", "a reason"); }

 private:
  FakeMachine* const machine_;
  const ExecutorProcess::Events events_;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

class FakeProcess final : public ExecutorProcess {
 public:
  static constexpr uint64_t kReplayed = 3;  // that each has dropped
  static constexpr uint64_t kCalls = 5;     // that each has run, of one function
  static constexpr uint64_t kRegistered = 4096;
  static constexpr uint64_t kQueued = 2;

  FakeProcess(FakeMachine* machine, std::shared_ptr<FakeLife> life, size_t number)
      : machine_(machine), life_(std::move(life)), number_(number) {
    watch_.ShowRegistered(kRegistered);
    watch_.AddQueued(kQueued);
  }
  ~FakeProcess() override {
    Stop(absl::ZeroDuration());
    absl::MutexLock lock(&mutex_);
    for (std::thread& thread : stoppers_) thread.join();
  }

  pid_t pid() const override { return 0; }
  bool prestarted() const override { return number_ == 0; }
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Functions() override { return Infos(); }
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(const std::string&, CodeKind,
                                                            const std::string& name) override {
    if (absl::Status status = MayWait(); !status.ok()) return status;
    {
      absl::MutexLock lock(&machine_->mutex);
      if (number_ < machine_->refuse_load.size() && machine_->refuse_load[number_]) {
        return absl::FailedPreconditionError("cannot be loaded");
      }
    }
    absl::MutexLock lock(&mutex_);
    loaded_.push_back(name);
    std::vector<bootstrap::FunctionInfo> infos = Infos();
    for (const std::string& each : loaded_) infos.push_back({each});
    return infos;
  }
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      const bootstrap::OpenSessionRequest& request) override {
    bootstrap::OpenSessionReply reply;
    reply.handle = 1;  // every process has a session 1
    reply.epoch = request.executor;
    reply.functions = Infos();
    return reply;
  }
  absl::Status SwitchNotification(uint64_t handle, Notification, absl::string_view) override {
    return Known(handle);
  }
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t handle, uint64_t) override {
    if (absl::Status status = Known(handle); !status.ok()) return status;
    return bootstrap::RequestState::kInHand;
  }
  absl::Status CloseSession(uint64_t handle) override {
    if (absl::Status status = MayWait(); !status.ok()) return status;
    return Known(handle);
  }
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t handle, const bootstrap::WindowDescriptor&, bool,
                                          bool) override {
    if (absl::Status status = Known(handle); !status.ok()) return status;
    return static_cast<uint16_t>(number_ + 1);
  }
  absl::Status ForgetWindow(uint64_t handle, uint16_t) override { return Known(handle); }
  const ExecutorWatch& watch() const override { return watch_; }
  ExecutorUsage Usage() const override {
    ExecutorUsage usage;
    usage.calls = 10;
    return usage;
  }
  bootstrap::FunctionTable FunctionUsage() const override {
    bootstrap::FunctionCounts counts;
    counts.calls = kCalls;
    bootstrap::FunctionTable table;
    table.Add("fake", "fabric", counts);
    return table;
  }
  DropCounters Dropped() const override {
    DropCounters dropped;
    dropped.replayed = kReplayed;
    return dropped;
  }
  absl::Duration CpuTime() const override { return absl::Seconds(2); }
  void Drain() override {}
  void Stop(absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    stoppers_.emplace_back([life = life_] {
      life->End({LeaseEndCause::kReleased, "told to stop", absl::ZeroDuration()});
    });
  }

 private:
  // Waits like a request behind a function that never returns.
  absl::Status MayWait() {
    {
      absl::MutexLock lock(&machine_->mutex);
      if (!machine_->hold_requests) return absl::OkStatus();
      ++machine_->waiting;
    }
    life_->AwaitEnd();
    absl::MutexLock lock(&machine_->mutex);
    --machine_->waiting;
    return absl::UnavailableError("the process has ended");
  }
  static std::vector<bootstrap::FunctionInfo> Infos() { return {{"echo"}}; }
  static absl::Status Known(uint64_t handle) {
    return handle == 1 ? absl::OkStatus() : absl::NotFoundError("no such session in the process");
  }

  FakeMachine* const machine_;
  const std::shared_ptr<FakeLife> life_;
  const size_t number_;
  ExecutorWatch watch_;
  absl::Mutex mutex_;
  std::vector<std::string> loaded_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> stoppers_ ABSL_GUARDED_BY(mutex_);
};

class FakeSpawner final : public ExecutorSpawner {
 public:
  explicit FakeSpawner(FakeMachine* machine) : machine_(machine) {}

  absl::StatusOr<std::unique_ptr<ExecutorProcess>> Spawn(ExecutorKind, const ExecutorTerms&,
                                                         ExecutorProcess::Events events) override {
    const auto ended = std::make_shared<bool>(false);  // guarded by the machine's mutex
    if (events.on_starting) {
      events.on_starting([machine = machine_, ended] {
        absl::MutexLock lock(&machine->mutex);
        ++machine->ended_starts;
        *ended = !machine->late_ends;
      });
    }
    absl::MutexLock lock(&machine_->mutex);
    ++machine_->starting;
    const auto go_on = [machine = machine_, ended] { return !machine->hold_spawns || *ended; };
    machine_->mutex.Await(absl::Condition(&go_on));
    --machine_->starting;
    if (*ended) return absl::UnavailableError("ended while it started");
    if (!machine_->refuse_spawn.ok()) return machine_->refuse_spawn;
    auto life = std::make_shared<FakeLife>(machine_, std::move(events));
    machine_->lives.push_back(life);
    machine_->most_alive = std::max(machine_->most_alive, ++machine_->alive);
    ++machine_->spawned;
    return std::make_unique<FakeProcess>(machine_, life, machine_->lives.size() - 1);
  }
  std::vector<std::string> Notes() const override { return {}; }

 private:
  FakeMachine* const machine_;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_LEASE_FAKE_SPAWNER_H_
