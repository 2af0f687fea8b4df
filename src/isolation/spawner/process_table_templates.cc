// ProcessTable: messages from templates, and their restart. A template ends only by a fault of its
// own or a kill. Its executors end with it, and another template is started.

#include <sys/epoll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/spawner/process_table.h"
#include "src/log/log.h"

namespace invoker {
namespace {
using isolation::v1::FromTemplate;

}  // namespace

void ProcessTable::OnTemplate(ExecutorKind kind) {
  Kind& of = KindOf(kind);
  std::shared_ptr<TemplateProcess> process;
  {
    absl::MutexLock lock(&mutex_);
    process = of.process;
  }
  // An event that was under way when it was given up.
  if (process == nullptr) return;
  absl::StatusOr<ControlSocket::Message> message = process->socket().Receive(/*wait=*/false);
  if (absl::IsNotFound(message.status())) return;
  FromTemplate event;
  if (!message.ok() || !event.ParseFromString(message->bytes)) {
    process.reset();
    return OnTemplateLost(kind, "it is gone");
  }
  if (event.has_prepared()) {
    const absl::Status status = process->OnPrepared(event.prepared());
    process.reset();
    if (!status.ok()) return OnTemplateLost(kind, status.message());
    of.restart.OnPrepared();
    {
      absl::MutexLock lock(&mutex_);
      of.prepared = true;
      of.refill = true;
    }
    LogInfo(absl::StrCat(KindName(kind), " executors can be started again"));
    return Refill(kind);
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
    if (event.ended().was_stopped()) record->SetKillReason(KillReason::kStopped);
    record->OnEnded(static_cast<int>(event.ended().wait_status()),
                    absl::Microseconds(event.ended().cpu_us()));
  }
  Forget(record);
}

void ProcessTable::OnTemplateLost(ExecutorKind kind, absl::string_view why) {
  Kind& of = KindOf(kind);
  std::shared_ptr<TemplateProcess> process;
  std::vector<RecordPtr> lost;
  bool stopping = false;
  {
    absl::MutexLock lock(&mutex_);
    // From here on nobody forks from it.
    process = std::exchange(of.process, nullptr);
    of.prepared = false;
    stopping = stopping_;
    for (const auto& [id, record] : records_) {
      if (record->kind() == kind) lost.push_back(record);
    }
  }
  of.restart.OnPrepared();
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, process->socket().fd(), nullptr);
  // It may be there and have sent what is no message, or not be able to prepare.
  process->Kill();
  process.reset();
  // Before their ends are told: a listener may want another executor at once.
  if (!stopping) StartAgainLater(kind, why);
  for (const RecordPtr& record : lost) {
    record->OnLost();
    Forget(record);
  }
}

void ProcessTable::StartAgainLater(ExecutorKind kind, absl::string_view why) {
  const absl::Duration pause = KindOf(kind).restart.OnLost(MonotonicNow());
  LogError(absl::StrCat("the process that ", KindName(kind),
                        " executors are forked from has ended, and they with it (", why,
                        "); it is started again in ", absl::FormatDuration(pause)));
}

absl::Time ProcessTable::EndTemplates(absl::Time stop_by) {
  if (MonotonicNow() < stop_by) return stop_by;
  for (const ExecutorKind kind : kKinds) {
    bool there = false;
    {
      absl::MutexLock lock(&mutex_);
      there = KindOf(kind).process != nullptr;
    }
    if (there) OnTemplateLost(kind, "it has not ended its executors");
  }
  return absl::InfiniteFuture();
}

absl::Time ProcessTable::LookAtTemplates() {
  absl::Time stop_by;
  {
    absl::MutexLock lock(&mutex_);
    stop_by = stop_by_;
  }
  if (stop_by != absl::InfiniteFuture()) return EndTemplates(stop_by);
  absl::Time next = absl::InfiniteFuture();
  for (const ExecutorKind kind : kKinds) {
    Kind& of = KindOf(kind);
    const absl::Time now = MonotonicNow();
    if (of.restart.is_late(now)) {
      OnTemplateLost(kind, absl::StrCat("it was not ready after ",
                                        absl::FormatDuration(options_.start_limit)));
    }
    if (of.restart.TakeStart(now, options_.start_limit)) {
      if (absl::Status status = StartTemplate(kind); !status.ok()) {
        StartAgainLater(kind, status.message());
      }
    }
    next = std::min(next, of.restart.next());
  }
  return next;
}

}  // namespace invoker
