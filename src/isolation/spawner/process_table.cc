#include "src/isolation/spawner/process_table.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/start_thread.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/spawner/remote_executor.h"

namespace invoker {
namespace {
using isolation::v1::ToTemplate;

class Spawner final : public ExecutorSpawner {
 public:
  explicit Spawner(std::shared_ptr<ProcessTable> table) : table_(std::move(table)) {}
  ~Spawner() override { table_->Stop(); }

  absl::StatusOr<std::unique_ptr<ExecutorProcess>> Spawn(ExecutorKind kind,
                                                         const ExecutorTerms& terms,
                                                         ExecutorProcess::Events events) override {
    return table_->Spawn(kind, terms, std::move(events));
  }
  std::vector<std::string> Notes() const override { return table_->notes(); }

 private:
  const std::shared_ptr<ProcessTable> table_;
};

// Payloads of large calls may take so much of an executor's memory at a time; the rest is for
// windows, loaded code and functions. A call that needs more is refused, and the lease goes on.
uint64_t BulkBytesOf(uint64_t memory_bytes) { return memory_bytes / 4 * 3; }

// Those that this process may run on, counted from 1.
std::vector<uint32_t> OwnCores() {
  std::vector<uint32_t> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core + 1);
  }
  return cores;
}

}  // namespace

ProcessTable::ProcessTable(const SpawnerOptions& options, ExecutorSetup setup)
    : options_(options),
      setup_(std::move(setup)),
      cores_(options.bind ? OwnCores() : std::vector<uint32_t>()) {}

absl::string_view ProcessTable::KindName(ExecutorKind kind) {
  return kind == ExecutorKind::kPython ? "Python" : "native";
}

absl::StatusOr<std::shared_ptr<ProcessTable>> ProcessTable::Start(const SpawnerOptions& options) {
  absl::StatusOr<ExecutorSetup> setup = ExecutorSetup::Make(options);
  if (!setup.ok()) return setup.status();
  std::shared_ptr<ProcessTable> table(new ProcessTable(options, *std::move(setup)));
  if (absl::Status status = table->Prepare(); !status.ok()) return status;
  return table;
}

absl::Status ProcessTable::Prepare() {
  events_.Reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!Watch(wake_.get(), kWakeEvent)) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll: ", strerror(errno)));
  }
  // Both templates at once, since each takes a while. No thread reads their messages yet.
  absl::Status status;
  for (const ExecutorKind kind : kKinds) {
    if (status.ok() && setup_.KindOf(kind).served()) status = StartTemplate(kind);
  }
  for (Kind& kind : kinds_) {
    absl::MutexLock lock(&mutex_);
    if (!status.ok() || kind.process == nullptr) continue;
    status = kind.process->WaitUntilPrepared(options_.start_limit);
    kind.prepared = status.ok();
  }
  if (!status.ok()) return status;
  status = transport::StartThread(&thread_, [this] { ThreadMain(); });
  if (!status.ok()) return status;

  // The proof that executors come up: one of each kind, which then is the pool's first.
  for (const ExecutorKind kind : kKinds) {
    if (!setup_.KindOf(kind).served()) continue;
    const bool keep = setup_.KindOf(kind).prestart > 0;
    absl::StatusOr<RecordPtr> first = StartOne(kind, keep ? Use::kPool : Use::kLease);
    if (!first.ok()) return first.status();
    if (status = (*first)->WaitUntilReady(); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("no executor comes up: ", status.message()));
    }
    if (!keep) Kill(first->get(), KillReason::kNotNeeded);
    Refill(kind);
  }
  return absl::OkStatus();
}

absl::Status ProcessTable::StartTemplate(ExecutorKind kind) {
  Kind& of = KindOf(kind);
  of.restart.OnStarted(MonotonicNow());
  absl::StatusOr<std::unique_ptr<TemplateProcess>> process = TemplateProcess::Start(
      setup_.KindOf(kind).template_command, setup_.KindOf(kind).variables, setup_.prepare);
  if (!process.ok()) return process.status();
  if (!Watch((*process)->socket().fd(), static_cast<uint64_t>(kind))) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll_ctl: ", strerror(errno)));
  }
  absl::MutexLock lock(&mutex_);
  of.process = *std::move(process);
  return absl::OkStatus();
}

bool ProcessTable::Watch(int fd, uint64_t number) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = number;
  return epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

absl::Status ProcessTable::Launch(const RecordPtr& record, TemplateProcess* process,
                                  const std::vector<int>& descriptors) {
  ToTemplate spawn;
  spawn.mutable_spawn()->set_id(record->id());
  for (const std::string& argument : setup_.KindOf(record->kind()).command) {
    spawn.mutable_spawn()->add_command(argument);
  }
  if (setup_.user.several()) spawn.mutable_spawn()->set_user(record->place().owner);
  spawn.mutable_spawn()->set_core(record->place().core);
  absl::Status status = process->Send(spawn, descriptors);
  std::vector<int> libraries;
  for (const UniqueFd& library : setup_.libraries) libraries.push_back(library.get());
  if (status.ok()) status = record->SendStart(setup_.prepare.environment(), libraries);
  if (!status.ok()) return status;
  // A kill that came before has not found it.
  if (record->killed()) {
    ToTemplate kill;
    kill.mutable_kill()->set_id(record->id());
    process->Send(kill, {}).IgnoreError();
  }
  absl::MutexLock lock(&mutex_);
  // It has ended already, and says why.
  if (records_.count(record->id()) == 0) return absl::OkStatus();
  if (!Watch(record->socket().fd(), kFirstRecordEvent + record->id())) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll_ctl: ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<uid_t> ProcessTable::ChooseUser() {
  if (!setup_.user.several()) return setup_.user.change ? setup_.user.uid : geteuid();
  std::set<uid_t> used;
  for (const auto& [id, record] : records_) used.insert(record->place().owner);
  const uint64_t count = uint64_t{setup_.user.last_uid} - setup_.user.uid + 1;
  // The one that has not been used for longest comes first.
  for (uint64_t i = 0; i < count; ++i) {
    const auto candidate = static_cast<uid_t>(setup_.user.uid + next_user_++ % count);
    if (used.count(candidate) == 0) return candidate;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "executors run as all of the users ", setup_.user.uid, " to ", setup_.user.last_uid,
      " that they may; give --executor-user as many as there can be executors, and some more for ",
      "those that are ending"));
}

uint32_t ProcessTable::ChooseCore() {
  if (cores_.empty()) return 0;
  std::map<uint32_t, int> executors;
  for (const auto& [id, record] : records_) ++executors[record->place().core];
  // The one that has not been chosen for longest comes first.
  uint32_t best = 0;
  for (size_t i = 0; i < cores_.size(); ++i) {
    const uint32_t core = cores_[(next_core_ + i) % cores_.size()];
    if (best == 0 || executors[core] < executors[best]) best = core;
  }
  next_core_ =
      static_cast<size_t>(std::find(cores_.begin(), cores_.end(), best) - cores_.begin()) + 1;
  return best;
}

absl::StatusOr<ProcessTable::RecordPtr> ProcessTable::StartOne(ExecutorKind kind, Use use) {
  Kind& of = KindOf(kind);
  absl::StatusOr<std::pair<UniqueFd, UniqueFd>> sockets = ControlSocket::Pair();
  if (!sockets.ok()) return sockets.status();
  absl::StatusOr<std::pair<MappedPage, UniqueFd>> page = MappedPage::Create();
  if (!page.ok()) return page.status();
  const uint64_t id = next_id_++;
  std::vector<int> descriptors = {sockets->second.get(), page->second.get()};
  std::unique_ptr<ExecutorGroup> group;
  UniqueFd group_processes;
  if (setup_.groups != nullptr) {
    absl::StatusOr<std::unique_ptr<ExecutorGroup>> added = setup_.groups->Add(id);
    if (!added.ok()) return added.status();
    absl::StatusOr<UniqueFd> processes = (*added)->OpenProcesses();
    if (!processes.ok()) return processes.status();
    group = *std::move(added);
    group_processes = *std::move(processes);
    descriptors.push_back(group_processes.get());
  }
  auto record = std::make_shared<ExecutorRecord>(id, kind, !setup_.KindOf(kind).command.empty(),
                                                 std::move(sockets->first), std::move(page->first),
                                                 std::move(group));
  // Before it can answer.
  record->SetStartLimit(options_.start_limit);
  std::shared_ptr<TemplateProcess> process;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the server is stopping");
    if (!of.prepared) {
      return absl::UnavailableError(
          absl::StrCat("the process that ", KindName(kind),
                       " executors are forked from has ended, and is started again"));
    }
    if (use == Use::kPool && IsPoolFull(kind)) return RecordPtr();
    absl::StatusOr<uid_t> owner = ChooseUser();
    if (!owner.ok()) return owner.status();
    record->set_place({*owner, ChooseCore()});
    if (use == Use::kPool) of.pool.insert(record);
    process = of.process;
    records_[id] = record;
  }
  absl::Status status = Launch(record, process.get(), descriptors);
  if (status.ok()) {
    Wake();
    return record;
  }
  status =
      absl::Status(status.code(), absl::StrCat("cannot start an executor: ", status.message()));
  {
    absl::MutexLock lock(&mutex_);
    records_.erase(id);
    of.pool.erase(record);
  }
  // Somebody may have taken it from the pool, and wait for it.
  record->OnNotSpawned(status);
  return status;
}

void ProcessTable::Refill(ExecutorKind kind) {
  Kind& of = KindOf(kind);
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (!of.refill || !of.prepared || stopping_ || IsPoolFull(kind)) return;
    }
    absl::StatusOr<RecordPtr> record = StartOne(kind, Use::kPool);
    if (!record.ok() || *record == nullptr) return;
  }
}

absl::StatusOr<ProcessTable::Taken> ProcessTable::TakeOne(ExecutorKind kind) {
  Kind& of = KindOf(kind);
  if (!setup_.KindOf(kind).served()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this worker has no ", KindName(kind), " executors"));
  }
  RecordPtr taken;
  {
    absl::MutexLock lock(&mutex_);
    // Unless the template has ended, it is there. If none comes soon, StartOne says so.
    const auto usable = [this, &of] {
      mutex_.AssertReaderHeld();
      return of.prepared || stopping_;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&usable), options_.start_limit);
    of.refill = true;
    // One that is ready; else the one that was started first, which will be soonest.
    for (const RecordPtr& record : of.pool) {
      if (record->ended()) continue;
      const auto rank = [](const RecordPtr& of) { return std::make_pair(!of->ready(), of->id()); };
      if (taken == nullptr || rank(record) < rank(taken)) taken = record;
    }
    if (taken != nullptr) of.pool.erase(taken);
  }
  const bool prestarted = taken != nullptr;
  if (!prestarted) {
    absl::StatusOr<RecordPtr> started = StartOne(kind, Use::kLease);
    if (!started.ok()) return started.status();
    taken = *std::move(started);
  }
  Refill(kind);
  return Taken{std::move(taken), prestarted};
}

absl::StatusOr<std::unique_ptr<ExecutorProcess>> ProcessTable::Spawn(
    ExecutorKind kind, const ExecutorTerms& terms, ExecutorProcess::Events events) {
  absl::StatusOr<Taken> taken = TakeOne(kind);
  if (!taken.ok()) return taken.status();
  const RecordPtr record = std::move(taken->record);
  // From here on the process is ended if anything fails.
  auto process = std::make_unique<RemoteExecutor>(shared_from_this(), record, taken->prestarted);
  if (events.on_starting) {
    events.on_starting([table = shared_from_this(), record] {
      table->Kill(record.get(), KillReason::kNotNeeded);
    });
  }
  if (absl::Status status = record->WaitUntilReady(); !status.ok()) return status;
  isolation::v1::ToExecutor request;
  // Its group's limit, if it has one, is for all that it starts together.
  const bool by_group = setup_.groups != nullptr && setup_.groups->limits_memory();
  if (!by_group) request.mutable_configure()->set_memory_bytes(terms.memory_bytes);
  request.mutable_configure()->set_bulk_bytes(BulkBytesOf(terms.memory_bytes));
  request.mutable_configure()->set_hot_timeout_ns(ToNanoseconds(terms.hot_timeout));
  record->Take(terms, std::move(events));
  record->SetStartLimit(options_.start_limit);
  Wake();
  absl::Status status = record->Call(std::move(request), {}).status();
  record->ClearStartLimit();
  if (status.ok() && by_group) status = record->LimitGroupMemory(terms.memory_bytes);
  if (!status.ok()) return status;
  return process;
}

void ProcessTable::Kill(ExecutorRecord* record, KillReason reason) {
  if (!record->SetKillReason(reason)) return;
  std::shared_ptr<TemplateProcess> process;
  {
    absl::MutexLock lock(&mutex_);
    process = KindOf(record->kind()).process;
  }
  // Without one, it ends anyway; and one that was started since does not know it.
  if (process == nullptr) return;
  ToTemplate kill;
  kill.mutable_kill()->set_id(record->id());
  process->Send(kill, {}).IgnoreError();
}

void ProcessTable::Wake() {
  const uint64_t one = 1;
  // Only a full counter would fail, and then the thread is awake.
  static_cast<void>(!write(wake_.get(), &one, sizeof(one)));
}

ProcessTable::RecordPtr ProcessTable::Find(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : found->second;
}

void ProcessTable::Forget(const RecordPtr& record) {
  absl::MutexLock lock(&mutex_);
  // Together: Launch begins to watch it only while it is there.
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, record->socket().fd(), nullptr);
  records_.erase(record->id());
  Kind& of = KindOf(record->kind());
  // Started for the pool, and nothing became of it: so it would be with the next.
  if (of.pool.erase(record) > 0) of.refill = false;
}

void ProcessTable::OnRecord(uint64_t id) {
  const RecordPtr record = Find(id);
  if (record == nullptr || record->OnReadable()) return;
  // Its end is about to be told, or it has closed the socket and lives on.
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, record->socket().fd(), nullptr);
  record->ExpectEnd();
}

absl::Time ProcessTable::LookAtLimits() {
  std::vector<RecordPtr> records;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, record] : records_) records.push_back(record);
  }
  const absl::Time now = MonotonicNow();
  absl::Time next = absl::InfiniteFuture();
  for (const RecordPtr& record : records) {
    absl::Time again;
    const KillReason reason = record->Look(now, &again);
    if (reason != KillReason::kNone) Kill(record.get(), reason);
    next = std::min(next, again);
  }
  return next;
}

void ProcessTable::ThreadMain() {
  while (true) {
    const absl::Time next = std::min(LookAtLimits(), LookAtTemplates());
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_ && records_.empty()) return;
    }
    int timeout_ms = -1;
    if (next != absl::InfiniteFuture()) {
      const int64_t ms = absl::ToInt64Milliseconds(next - MonotonicNow()) + 1;
      timeout_ms = static_cast<int>(std::clamp<int64_t>(ms, 0, 3'600'000));
    }
    epoll_event events[64];
    const int count = epoll_wait(events_.get(), events, 64, timeout_ms);
    for (int i = 0; i < count; ++i) {
      const uint64_t number = events[i].data.u64;
      if (number >= kFirstRecordEvent) {
        OnRecord(number - kFirstRecordEvent);
      } else if (number == kWakeEvent) {
        uint64_t ignored;
        static_cast<void>(!read(wake_.get(), &ignored, sizeof(ignored)));
      } else {
        OnTemplate(static_cast<ExecutorKind>(number));
      }
    }
  }
}

void ProcessTable::Stop() {
  if (!thread_.joinable()) return;
  std::vector<RecordPtr> records;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stop_by_ = MonotonicNow() + options_.end_limit;
    for (const auto& [id, record] : records_) records.push_back(record);
  }
  for (const RecordPtr& record : records) Kill(record.get(), KillReason::kNotNeeded);
  Wake();
  thread_.join();
  for (Kind& kind : kinds_) {
    std::shared_ptr<TemplateProcess> process;
    {
      absl::MutexLock lock(&mutex_);
      process = std::exchange(kind.process, nullptr);
      kind.prepared = false;
    }
    // Waits for its end.
    process.reset();
  }
}

ProcessTable::~ProcessTable() { Stop(); }

absl::StatusOr<std::unique_ptr<ExecutorSpawner>> ExecutorSpawner::Start(
    const SpawnerOptions& options) {
  absl::StatusOr<std::shared_ptr<ProcessTable>> table = ProcessTable::Start(options);
  if (!table.ok()) return table.status();
  return std::unique_ptr<ExecutorSpawner>(std::make_unique<Spawner>(*std::move(table)));
}

}  // namespace invoker
