// What a spawner hears from its templates; and when one has ended, which it does only by a fault of
// its own or somebody's kill: its executors have ended with it, and another one is started.

#include <sys/epoll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/spawner/process_spawner.h"

namespace invoker {
namespace {

using bootstrap::ExecutorKind;
using isolation::v1::FromTemplate;

// Doubled with each template that ends soon after its start, so that one that cannot live costs
// little.
constexpr absl::Duration kFirstWait = absl::Milliseconds(100);
constexpr absl::Duration kLongestWait = absl::Seconds(30);
constexpr int kMostDoublings = 9;
// One that has lived for so long has not ended because of its start.
constexpr absl::Duration kSettled = absl::Minutes(1);

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
    of.prepare_by = absl::InfiniteFuture();
    {
      absl::MutexLock lock(&mutex_);
      of.prepared = true;
      of.refill = true;
    }
    if (options_.log) {
      options_.log(absl::StrCat(KindName(kind), " executors can be started again"));
    }
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
  of.prepare_by = absl::InfiniteFuture();
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, process->socket().fd(), nullptr);
  // It may be there and have sent what is no message, or not be able to prepare.
  process->Kill();
  process.reset();
  // Before their ends are told: who hears of one may want another at once.
  if (!stopping) StartAgainLater(kind, why);
  for (const RecordPtr& record : lost) {
    record->OnLost();
    Forget(record);
  }
}

void ProcessTable::StartAgainLater(ExecutorKind kind, absl::string_view why) {
  Kind& of = KindOf(kind);
  const absl::Time now = MonotonicNow();
  if (now - of.started_at > kSettled) of.failures = 0;
  const absl::Duration wait =
      std::min(kLongestWait, kFirstWait * (1 << std::min(of.failures, kMostDoublings)));
  ++of.failures;
  of.restart_at = now + wait;
  if (options_.log) {
    options_.log(absl::StrCat("the process that ", KindName(kind),
                              " executors are forked from has ended, and they with it (", why,
                              "); it is started again in ", absl::FormatDuration(wait)));
  }
}

absl::Time ProcessTable::EndTemplates(absl::Time stop_by) {
  if (MonotonicNow() < stop_by) return stop_by;
  for (const ExecutorKind kind : {ExecutorKind::kNative, ExecutorKind::kPython}) {
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
  for (const ExecutorKind kind : {ExecutorKind::kNative, ExecutorKind::kPython}) {
    Kind& of = KindOf(kind);
    const absl::Time now = MonotonicNow();
    if (of.prepare_by <= now) {
      OnTemplateLost(kind, absl::StrCat("it was not ready after ",
                                        absl::FormatDuration(options_.start_limit)));
    }
    if (of.restart_at <= now) {
      of.restart_at = absl::InfiniteFuture();
      of.prepare_by = now + options_.start_limit;
      if (absl::Status status = StartTemplate(kind); !status.ok()) {
        of.prepare_by = absl::InfiniteFuture();
        StartAgainLater(kind, status.message());
      }
    }
    next = std::min({next, of.restart_at, of.prepare_by});
  }
  return next;
}

}  // namespace invoker
