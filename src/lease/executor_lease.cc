#include "src/lease/executor_lease.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/work_threads.h"
#include "src/lease/lease_policy.h"
#include "src/lease/usage_reading.h"

namespace invoker {
namespace {

using bootstrap::FunctionInfo;

bool SameFunctions(const std::vector<FunctionInfo>& a, const std::vector<FunctionInfo>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const FunctionInfo& x, const FunctionInfo& y) {
                      return x.name == y.name && x.signature == y.signature;
                    });
}

// No more than an executor can have sessions; a process that says more does so in bad faith.
constexpr size_t kMostEndedEarly = 1 << 16;

absl::Status Gone() { return absl::UnavailableError("the lease's executor has ended"); }

}  // namespace

ExecutorLease::ExecutorLease(const LeaseTerms& terms, Events events)
    : terms_(terms), events_(std::move(events)), slots_(terms.executors) {}

ExecutorProcess::Events ExecutorLease::EventsFor(uint32_t index) {
  ExecutorProcess::Events events;
  events.on_starting = [this, index](std::function<void()> end) {
    OnStarting(index, std::move(end));
  };
  events.on_ended = [this, index](const ExecutorEnd& end) { OnEnded(index, end); };
  events.on_session_closed = [this, index](uint64_t handle, absl::string_view reason) {
    OnSessionClosed(index, handle, reason);
  };
  events.on_downgraded = events_.on_downgraded;
  return events;
}

void ExecutorLease::OnStarting(uint32_t index, std::function<void()> end) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || lost_) {
    end();
  } else {
    slots_[index].end_start = std::move(end);
  }
}

absl::Status ExecutorLease::Start(uint32_t index, ExecutorSpawner* spawner) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_ || lost_) return Gone();
    slots_[index].starting = true;
  }
  absl::StatusOr<std::unique_ptr<ExecutorProcess>> process =
      spawner->Spawn(terms_.kind, ExecutorTermsOf(terms_), EventsFor(index));
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_[index];
  slot.starting = false;
  slot.end_start = nullptr;
  if (!process.ok()) return process.status();
  slot.process = *std::move(process);
  ++starts_;
  if (!slot.process->prestarted()) ++cold_starts_;
  if (stopping_ || lost_) {
    slot.process->Stop(absl::ZeroDuration());
    return Gone();
  }
  return absl::OkStatus();
}

void ExecutorLease::OnEnded(uint32_t index, const ExecutorEnd& end) {
  LeaseEnd lost;
  {
    absl::MutexLock lock(&mutex_);
    slots_[index].ended = true;
    if (stopping_ || lost_) return;
    lost_ = true;
    StopAll(absl::ZeroDuration());
    lost.cause = end.cause == LeaseEndCause::kReleased ? LeaseEndCause::kServer : end.cause;
    lost.reason = terms_.executors == 1 ? end.reason
                                        : absl::StrCat("executor ", index, " of ", terms_.executors,
                                                       ": ", end.reason);
  }
  if (events_.on_ended) events_.on_ended(lost);
}

void ExecutorLease::OnSessionClosed(uint32_t index, uint64_t handle, absl::string_view reason) {
  uint64_t ours = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto session =
        std::find_if(sessions_.begin(), sessions_.end(), [index, handle](const auto& entry) {
          return entry.second.executor == index && entry.second.handle == handle;
        });
    if (session == sessions_.end()) {
      Slot& slot = slots_[index];
      if (slot.opening > 0 && slot.ended_early.size() < kMostEndedEarly) {
        slot.ended_early.insert(handle);
      }
      return;
    }
    ours = session->first;
    sessions_.erase(session);
  }
  if (events_.on_session_closed) events_.on_session_closed(ours, reason);
}

absl::StatusOr<bootstrap::OpenSessionReply> ExecutorLease::OpenSession(
    const bootstrap::OpenSessionRequest& request) {
  const uint32_t index = request.executor;
  ExecutorProcess* process = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (index >= slots_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the session asks for executor ", index,
                                                     ", but the lease has ", slots_.size(),
                                                     ", counted from 0"));
    }
    process = slots_[index].process.get();
    if (process == nullptr || slots_[index].ended) return Gone();
    ++slots_[index].opening;
  }
  bootstrap::OpenSessionRequest inner = request;
  inner.executor = 0;
  absl::StatusOr<bootstrap::OpenSessionReply> reply = process->OpenSession(inner);
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_[index];
  const bool failed = reply.ok() && slot.ended_early.contains(reply->handle);
  if (--slot.opening == 0) slot.ended_early.clear();
  if (!reply.ok()) return reply.status();
  if (failed) return absl::UnavailableError("the session has failed while it was being opened");
  const uint64_t ours = next_handle_++;
  sessions_[ours] = {index, reply->handle};
  reply->handle = ours;
  reply->executor = index;
  return reply;
}

absl::StatusOr<ExecutorLease::Found> ExecutorLease::Find(uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto session = sessions_.find(handle);
  if (session == sessions_.end()) return absl::NotFoundError("the lease has no such session");
  return Found{slots_[session->second.executor].process.get(), session->second.handle};
}

absl::Status ExecutorLease::SwitchNotification(uint64_t handle, Notification notification,
                                               absl::string_view reason) {
  absl::StatusOr<Found> found = Find(handle);
  if (!found.ok()) return found.status();
  return found->process->SwitchNotification(found->handle, notification, reason);
}

absl::Status ExecutorLease::CloseSession(uint64_t handle) {
  absl::StatusOr<Found> found = Find(handle);
  if (!found.ok()) return found.status();
  {
    absl::MutexLock lock(&mutex_);
    sessions_.erase(handle);
  }
  return found->process->CloseSession(found->handle);
}

absl::StatusOr<uint16_t> ExecutorLease::RegisterWindow(uint64_t handle,
                                                       const bootstrap::WindowDescriptor& window,
                                                       bool readable, bool writable) {
  absl::StatusOr<Found> found = Find(handle);
  if (!found.ok()) return found.status();
  return found->process->RegisterWindow(found->handle, window, readable, writable);
}

absl::StatusOr<bootstrap::RequestState> ExecutorLease::FindRequest(uint64_t handle,
                                                                   uint64_t sequence) {
  absl::StatusOr<Found> found = Find(handle);
  if (!found.ok()) return found.status();
  return found->process->FindRequest(found->handle, sequence);
}

absl::Status ExecutorLease::ForgetWindow(uint64_t handle, uint16_t number) {
  absl::StatusOr<Found> found = Find(handle);
  if (!found.ok()) return found.status();
  return found->process->ForgetWindow(found->handle, number);
}

absl::StatusOr<std::vector<FunctionInfo>> ExecutorLease::Load(const std::string& path,
                                                              CodeKind kind,
                                                              const std::string& name) {
  absl::MutexLock load_lock(&load_mutex_);
  std::vector<ExecutorProcess*> processes;
  {
    absl::MutexLock lock(&mutex_);
    for (const Slot& slot : slots_) {
      if (slot.process == nullptr || slot.ended) return Gone();
      processes.push_back(slot.process.get());
    }
  }
  std::vector<absl::StatusOr<std::vector<FunctionInfo>>> results(processes.size());
  {
    bootstrap::WorkThreads threads(processes.size());
    for (size_t i = 0; i < processes.size(); ++i) {
      threads.Run([&, i] { results[i] = processes[i]->Load(path, kind, name); });
    }
  }
  const auto agrees = [&first = results.front()](const auto& result) {
    return result.ok() == first.ok() && (!first.ok() || SameFunctions(*result, *first));
  };
  const auto other = std::find_if_not(results.begin(), results.end(), agrees);
  if (other == results.end()) return results.front();
  LeaseEnd lost;
  lost.reason = absl::StrCat("its executors cannot all load the same code: ",
                             !other->ok()            ? other->status().message()
                             : !results.front().ok() ? results.front().status().message()
                                                     : absl::string_view("their functions differ"));
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_ || lost_) return Gone();
    lost_ = true;
    StopAll(absl::ZeroDuration());
  }
  if (events_.on_ended) events_.on_ended(lost);
  return absl::AbortedError(lost.reason);
}

UsageReading ExecutorLease::Usage() const {
  absl::MutexLock lock(&mutex_);
  UsageReading sum;
  for (const Slot& slot : slots_) {
    if (slot.process == nullptr) continue;
    const ExecutorUsage usage = slot.process->Usage();
    sum.Add(ReadingOf(usage, slot.process->CpuTime()));
  }
  return sum;
}

DropCounters ExecutorLease::SumDropped() const {
  DropCounters sum = ended_dropped_;
  for (const Slot& slot : slots_) {
    if (slot.process != nullptr) LoadShared(slot.process->Dropped(), &sum);
  }
  return sum;
}

DropCounters ExecutorLease::Dropped() const {
  absl::MutexLock lock(&mutex_);
  return SumDropped();
}

void ExecutorLease::AddFunctions(bootstrap::FunctionTable* sum) const {
  sum->Add(ended_functions_);
  for (const Slot& slot : slots_) {
    if (slot.process != nullptr) sum->Add(slot.process->FunctionUsage());
  }
}

void ExecutorLease::AddStatus(bootstrap::ExecutorsStatus* status) const {
  absl::MutexLock lock(&mutex_);
  AddFunctions(&status->functions);
  status->sessions += static_cast<uint32_t>(sessions_.size());
  status->starts += starts_;
  status->cold_starts += cold_starts_;
  for (const Slot& slot : slots_) {
    if (slot.starting) ++status->starting;
    if (slot.process == nullptr || slot.ended) continue;
    const ExecutorWatch& watch = slot.process->watch();
    status->registered_bytes += watch.registered_bytes();
    status->requests_waiting += watch.waiting();
    ++(watch.Longest().running() ? status->busy : status->idle);
  }
}

void ExecutorLease::Drain() {
  absl::MutexLock lock(&mutex_);
  for (const Slot& slot : slots_) {
    if (slot.process != nullptr && !slot.ended) slot.process->Drain();
  }
}

void ExecutorLease::Stop(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  StopAll(limit);
}

void ExecutorLease::StopAll(absl::Duration limit) {
  for (const Slot& slot : slots_) {
    if (slot.process != nullptr && !slot.ended) slot.process->Stop(limit);
    // It has run nothing, so there is nothing to wait for.
    if (slot.end_start) slot.end_start();
  }
}

bool ExecutorLease::NoneLeft() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return !slot.starting && (slot.process == nullptr || slot.ended);
  });
}

void ExecutorLease::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &ExecutorLease::NoneLeft));
}

UsageReading ExecutorLease::End(absl::Duration limit) {
  Stop(limit);
  AwaitEnd();
  const UsageReading last = Usage();
  std::vector<std::unique_ptr<ExecutorProcess>> processes;
  {
    absl::MutexLock lock(&mutex_);
    sessions_.clear();
    ended_dropped_ = SumDropped();
    bootstrap::FunctionTable functions;
    AddFunctions(&functions);
    ended_functions_ = std::move(functions);
    for (Slot& slot : slots_) {
      if (slot.process != nullptr) processes.push_back(std::move(slot.process));
    }
  }
  // Without the lock: events may be under way, and each waits for its own.
  processes.clear();
  return last;
}

}  // namespace invoker
