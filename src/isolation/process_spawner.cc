#include "src/isolation/process_spawner.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/isolation/nanoseconds.h"
#include "src/isolation/remote_executor.h"

namespace invoker {
namespace {

using bootstrap::ExecutorKind;
using isolation::v1::FromTemplate;
using isolation::v1::ToTemplate;

absl::string_view KindName(ExecutorKind kind) {
  return kind == ExecutorKind::kPython ? "Python" : "native";
}

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessTable>> ProcessTable::Start(const SpawnerOptions& options) {
  std::shared_ptr<ProcessTable> table(new ProcessTable(options));
  if (absl::Status status = table->Prepare(); !status.ok()) return status;
  return table;
}

absl::StatusOr<ProcessTable::RecordPtr> ProcessTable::StartOne(ExecutorKind kind) {
  if (stopping_) return absl::UnavailableError("the server is stopping");
  absl::StatusOr<std::pair<UniqueFd, UniqueFd>> sockets = ControlSocket::Pair();
  if (!sockets.ok()) return sockets.status();
  absl::StatusOr<std::pair<MappedPage, UniqueFd>> page = MappedPage::Create();
  if (!page.ok()) return page.status();
  const uint64_t id = next_id_++;
  auto record = std::make_shared<ExecutorRecord>(id, kind, !KindOf(kind).command.empty(),
                                                 std::move(sockets->first), std::move(page->first));
  ToTemplate spawn;
  spawn.mutable_spawn()->set_id(id);
  for (const std::string& argument : KindOf(kind).command) {
    spawn.mutable_spawn()->add_command(argument);
  }
  records_[id] = record;
  absl::Status status =
      KindOf(kind).process->Send(spawn, {sockets->second.get(), page->second.get()});
  std::vector<int> libraries;
  for (const UniqueFd& library : libraries_) libraries.push_back(library.get());
  if (status.ok()) status = record->SendStart(environment_, libraries);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kFirstRecordEvent + id;
  if (status.ok() && epoll_ctl(events_.get(), EPOLL_CTL_ADD, record->socket().fd(), &event) != 0) {
    status = absl::ResourceExhaustedError(absl::StrCat("epoll_ctl: ", strerror(errno)));
  }
  if (status.ok()) return record;
  records_.erase(id);
  return absl::Status(status.code(), absl::StrCat("cannot start an executor: ", status.message()));
}

void ProcessTable::Refill(ExecutorKind kind) {
  Kind& of = KindOf(kind);
  while (of.refill && !stopping_ && of.pool.size() < of.prestart) {
    absl::StatusOr<RecordPtr> record = StartOne(kind);
    if (!record.ok()) return;
    of.pool.insert(*record);
  }
}

absl::StatusOr<ProcessTable::RecordPtr> ProcessTable::TakeOne(ExecutorKind kind) {
  absl::MutexLock lock(&mutex_);
  Kind& of = KindOf(kind);
  if (of.process == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("this worker has no ", KindName(kind), " executors"));
  }
  of.refill = true;
  // One that is ready; else the one that was started first, which will be soonest.
  RecordPtr taken;
  for (const RecordPtr& record : of.pool) {
    if (record->ended()) continue;
    const auto rank = [](const RecordPtr& of) { return std::make_pair(!of->ready(), of->id()); };
    if (taken == nullptr || rank(record) < rank(taken)) taken = record;
  }
  if (taken != nullptr) {
    of.pool.erase(taken);
  } else {
    absl::StatusOr<RecordPtr> started = StartOne(kind);
    if (!started.ok()) return started.status();
    taken = *std::move(started);
  }
  Refill(kind);
  return taken;
}

absl::StatusOr<std::unique_ptr<ExecutorProcess>> ProcessTable::Spawn(
    ExecutorKind kind, const ExecutorTerms& terms, ExecutorProcess::Events events) {
  absl::StatusOr<RecordPtr> record = TakeOne(kind);
  if (!record.ok()) return record.status();
  // From here on the process is ended if anything fails.
  auto process = std::make_unique<RemoteExecutor>(shared_from_this(), *record);
  if (absl::Status status = (*record)->WaitUntilReady(); !status.ok()) return status;
  isolation::v1::ToExecutor request;
  request.mutable_configure()->set_memory_bytes(terms.memory_bytes);
  request.mutable_configure()->set_hot_timeout_ns(ToNanoseconds(terms.hot_timeout));
  (*record)->Take(terms, std::move(events));
  absl::Status status = (*record)->Call(std::move(request), {}).status();
  if (!status.ok()) return status;
  return process;
}

void ProcessTable::Kill(ExecutorRecord* record, KillReason reason) {
  if (!record->SetKillReason(reason)) return;
  ToTemplate kill;
  kill.mutable_kill()->set_id(record->id());
  KindOf(record->kind()).process->Send(kill, {}).IgnoreError();
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
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, record->socket().fd(), nullptr);
  absl::MutexLock lock(&mutex_);
  records_.erase(record->id());
  Kind& of = KindOf(record->kind());
  // Started for the pool, and nothing became of it: so it would be with the next.
  if (of.pool.erase(record) > 0) of.refill = false;
}

void ProcessTable::OnTemplate(ExecutorKind kind) {
  TemplateProcess& process = *KindOf(kind).process;
  absl::StatusOr<ControlSocket::Message> message = process.socket().Receive(/*wait=*/false);
  if (absl::IsNotFound(message.status())) return;
  FromTemplate event;
  if (!message.ok() || !event.ParseFromString(message->bytes)) {
    epoll_ctl(events_.get(), EPOLL_CTL_DEL, process.socket().fd(), nullptr);
    std::vector<RecordPtr> lost;
    {
      absl::MutexLock lock(&mutex_);
      for (const auto& [id, record] : records_) {
        if (record->kind() == kind) lost.push_back(record);
      }
    }
    for (const RecordPtr& record : lost) {
      record->OnLost();
      Forget(record);
    }
    return;
  }
  const RecordPtr record = Find(event.has_spawned() ? event.spawned().id() : event.ended().id());
  if (record == nullptr) return;
  if (event.has_spawned() && event.spawned().pid() != 0) {
    record->OnSpawned(static_cast<pid_t>(event.spawned().pid()));
    return;
  }
  if (event.has_spawned()) {
    record->OnNotSpawned(absl::ResourceExhaustedError(event.spawned().text()));
  } else {
    record->OnEnded(static_cast<int>(event.ended().wait_status()),
                    absl::Microseconds(event.ended().cpu_us()));
  }
  Forget(record);
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
    const absl::Time next = LookAtLimits();
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
    absl::MutexLock lock(&mutex_);
    if (stopping_ && records_.empty()) return;
  }
}

void ProcessTable::Stop() {
  if (!thread_.joinable()) return;
  std::vector<RecordPtr> records;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (const auto& [id, record] : records_) records.push_back(record);
  }
  for (const RecordPtr& record : records) Kill(record.get(), KillReason::kNotNeeded);
  Wake();
  thread_.join();
  for (Kind& kind : kinds_) kind.process.reset();
}

ProcessTable::~ProcessTable() { Stop(); }

}  // namespace invoker
