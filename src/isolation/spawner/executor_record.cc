#include "src/isolation/spawner/executor_record.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "invoker/function_abi.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/transport/base/shared_files.h"

namespace invoker {
namespace {

using isolation::v1::FromExecutor;
using isolation::v1::ToExecutor;

constexpr uint64_t kStartRequest = 1;

// So many messages are read at the end of a process. A child of it may have its socket, and say
// more for ever.
constexpr int kMostLastMessages = 64;

// Names go into metrics and logs.
std::vector<bootstrap::FunctionInfo> WithPrintableNames(
    std::vector<bootstrap::FunctionInfo> functions) {
  for (bootstrap::FunctionInfo& function : functions) {
    function.name = bootstrap::PrintableText(function.name, INVOKER_MAX_NAME);
  }
  return functions;
}

absl::Status StatusOf(const FromExecutor& answer) {
  return absl::Status(static_cast<absl::StatusCode>(answer.status()),
                      bootstrap::PrintableText(answer.text(), 2048));
}

// The time of a process and of its children that have ended; 0: unknown.
absl::Duration KernelTime(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(')');
  uint64_t ticks[4];
  if (end == std::string::npos ||
      sscanf(line.c_str() + end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
             &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 4) {
    return absl::ZeroDuration();
  }
  return absl::Seconds(static_cast<double>(ticks[0] + ticks[1] + ticks[2] + ticks[3]) /
                       static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

absl::Status ExecutorRecord::SendStart(const isolation::v1::Environment& environment,
                                       absl::Span<const int> library_fds) {
  ToExecutor start;
  start.set_id(kStartRequest);
  *start.mutable_start() = environment;
  return socket_.Send(start.SerializeAsString(), library_fds, /*wait=*/false);
}

absl::Status ExecutorRecord::EndedStatus() const {
  return absl::UnavailableError(absl::StrCat("the executor has ended: ", end_->reason));
}

absl::StatusOr<FromExecutor> ExecutorRecord::Call(ToExecutor request, absl::Span<const int> fds) {
  Pending pending;
  {
    absl::MutexLock lock(&mutex_);
    if (end_.has_value()) return EndedStatus();
    request.set_id(next_request_++);
    pending.load = request.has_load();
    pending_[request.id()] = &pending;
  }
  const absl::Status sent = socket_.Send(request.SerializeAsString(), fds, /*wait=*/false);
  absl::MutexLock lock(&mutex_);
  if (!sent.ok() && !absl::IsUnavailable(sent)) {
    pending_.erase(request.id());
    if (pending.load) limits_.EndLoad(MonotonicNow());
    return sent;
  }
  // If the process is gone, that is about to be known, and why.
  mutex_.Await(absl::Condition(&pending.done));
  if (!pending.answer.ok()) return pending.answer.status();
  if (absl::Status status = StatusOf(*pending.answer); !status.ok()) return status;
  return *std::move(pending.answer);
}

void ExecutorRecord::Tell(const ToExecutor& message) {
  // The end of one that is gone, or that does not read, comes by other ways.
  socket_.Send(message.SerializeAsString(), {}, /*wait=*/false).IgnoreError();
}

void ExecutorRecord::SetStartLimit(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  limits_.SetStartLimit(limit, MonotonicNow());
}

void ExecutorRecord::ClearStartLimit() {
  absl::MutexLock lock(&mutex_);
  limits_.ClearStartLimit();
}

absl::Status ExecutorRecord::WaitUntilReady() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](ExecutorRecord* self) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return self->ready_ || self->end_.has_value() || !self->start_status_.ok();
      },
      this));
  if (!start_status_.ok()) return start_status_;
  return end_.has_value() ? EndedStatus() : absl::OkStatus();
}

bool ExecutorRecord::ready() const {
  absl::MutexLock lock(&mutex_);
  return ready_ && !end_.has_value();
}

void ExecutorRecord::Take(const ExecutorTerms& terms, ExecutorProcess::Events events) {
  std::optional<ExecutorEnd> end;
  std::function<void(const ExecutorEnd&)> on_ended = events.on_ended;
  {
    absl::MutexLock lock(&mutex_);
    terms_ = terms;
    limits_.set_call_limit(terms.call_limit);
    // The end of a process that nobody had taken has been told to nobody.
    if (end_.has_value()) {
      end = end_;
    } else {
      events_ = std::move(events);
    }
  }
  if (end.has_value() && on_ended) on_ended(*end);
}

void ExecutorRecord::SetFunctions(std::vector<bootstrap::FunctionInfo> functions) {
  absl::MutexLock lock(&mutex_);
  known_.functions = WithPrintableNames(std::move(functions));
}

std::vector<bootstrap::FunctionInfo> ExecutorRecord::Functions() const {
  absl::MutexLock lock(&mutex_);
  return known_.functions;
}

std::vector<std::string> ExecutorRecord::Providers() const {
  absl::MutexLock lock(&mutex_);
  return known_.providers;
}

absl::Status ExecutorRecord::LimitGroupMemory(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (end_.has_value()) return EndedStatus();
  if (bytes == 0 || group_ == nullptr) return absl::OkStatus();
  return group_->LimitMemory(bytes);
}

bool ExecutorRecord::SetKillReason(KillReason reason) {
  absl::MutexLock lock(&mutex_);
  return !end_.has_value() && limits_.SetKillReason(reason);
}

bool ExecutorRecord::killed() const {
  absl::MutexLock lock(&mutex_);
  return limits_.kill_reason() != KillReason::kNone;
}

void ExecutorRecord::SetStopLimit(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  limits_.SetStopLimit(limit, MonotonicNow());
}

void ExecutorRecord::ExpectEnd() {
  absl::MutexLock lock(&mutex_);
  limits_.ExpectEnd(MonotonicNow());
}

void ExecutorRecord::AddSessions(int change) {
  absl::MutexLock lock(&mutex_);
  limits_.AddSessions(change);
}

void ExecutorRecord::BeginLoad() {
  absl::MutexLock lock(&mutex_);
  limits_.BeginLoad(MonotonicNow());
}

pid_t ExecutorRecord::pid() const {
  absl::MutexLock lock(&mutex_);
  return pid_;
}

absl::Duration ExecutorRecord::UsedTime() const {
  const absl::Duration of_group = group_ == nullptr ? absl::ZeroDuration() : group_->CpuTime();
  if (of_group != absl::ZeroDuration() || pid_ == 0) return of_group;
  return KernelTime(pid_);
}

absl::Duration ExecutorRecord::CpuTime() const {
  absl::MutexLock lock(&mutex_);
  // Rounded differently from one moment to the next, but it never goes back.
  if (!end_.has_value()) cpu_time_ = std::max(cpu_time_, UsedTime());
  return cpu_time_;
}

bool ExecutorRecord::ended() const {
  absl::MutexLock lock(&mutex_);
  return end_.has_value();
}

void ExecutorRecord::WaitUntilEnded() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&told_));
}

void ExecutorRecord::OnSpawned(pid_t pid) {
  absl::MutexLock lock(&mutex_);
  pid_ = pid;
}

void ExecutorRecord::OnNotSpawned(const absl::Status& why) {
  Finish({LeaseEndCause::kServer, std::string(why.message()), {}}, {});
}

bool ExecutorRecord::OnReadable() {
  // One at a time: others have their turn.
  absl::StatusOr<ControlSocket::Message> message = socket_.Receive(/*wait=*/false);
  if (absl::IsNotFound(message.status())) return true;
  FromExecutor parsed;
  if (!message.ok() || !parsed.ParseFromString(message->bytes)) return false;
  OnMessage(parsed, message->sender);
  return true;
}

void ExecutorRecord::OnMessage(const FromExecutor& message, pid_t sender) {
  ExecutorProcess::Events events;
  {
    absl::MutexLock lock(&mutex_);
    if (message.id() == kStartRequest && !ready_) {
      start_status_ = StatusOf(message);
      ready_ = start_status_.ok();
      limits_.ClearStartLimit();
      known_.functions = WithPrintableNames(bootstrap::FromProto(message.ready().functions()));
      known_.providers = page_->function_meters.Providers();
      // It is not what was forked where a sandbox's program is between.
      if (sender != 0) pid_ = sender;
      return;
    }
    if (const auto found = pending_.find(message.id()); found != pending_.end()) {
      found->second->answer = message;
      found->second->done = true;
      if (found->second->load) limits_.EndLoad(MonotonicNow());
      pending_.erase(found);
      return;
    }
    // What it says of its sessions is passed on, and no reason to look less at what it runs.
    events = events_;
  }
  if (message.has_session_closed() && events.on_session_closed) {
    events.on_session_closed(message.session_closed().handle(),
                             bootstrap::PrintableText(message.session_closed().reason(), 512));
  } else if (message.has_downgraded() && events.on_downgraded) {
    events.on_downgraded(bootstrap::PrintableText(message.downgraded().provider(), 64),
                         bootstrap::PrintableText(message.downgraded().reason(), 512));
  }
}

EndFacts ExecutorRecord::Facts(int wait_status) const {
  const ExecutorPage& page = *page_.get();
  EndFacts facts;
  facts.wait_status = wait_status;
  facts.killed = limits_.kill_reason();
  facts.stop_requested = limits_.stop_requested();
  // What ran when the limit had passed; it may have ended since.
  const ExecutorWatch::Run run = facts.killed == KillReason::kCallLimit ? limits_.seen()
                                 : page.watch.Now().running()           ? page.watch.Now()
                                                                        : page.watch.Longest();
  if (run.running()) {
    facts.function = run.function() < known_.functions.size()
                         ? known_.functions[run.function()].name
                         : absl::StrCat("number ", run.function());
  }
  facts.memory_bytes = terms_.memory_bytes;
  facts.call_limit = terms_.call_limit;
  facts.start_limit = limits_.start_limit();
  facts.address_space_limit = page.address_space_limit.load();
  facts.killed_by_memory_group = group_ != nullptr && group_->KilledForMemory();
  facts.exit_called = page.exit_called.load();
  facts.out_of_memory = page.out_of_memory.load() != 0;
  facts.overrun_bytes = page.overrun_bytes.load();
  facts.fault_address = page.fault_address.load();
  facts.address_space_bytes = page.address_space_bytes.load();
  return facts;
}

void ExecutorRecord::OnEnded(int wait_status, absl::Duration cpu_time) {
  // What it had said before.
  for (int i = 0; i < kMostLastMessages; ++i) {
    absl::StatusOr<ControlSocket::Message> message = socket_.Receive(/*wait=*/false);
    FromExecutor parsed;
    if (!message.ok() || !parsed.ParseFromString(message->bytes)) break;
    OnMessage(parsed, message->sender);
  }
  // A sandbox's program passes a signal on as a status.
  if (sandboxed_ && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) > 128 &&
      page_.get()->exit_called.load() == 0) {
    wait_status = WEXITSTATUS(wait_status) - 128;
  }
  ExecutorEnd end;
  {
    absl::MutexLock lock(&mutex_);
    end = JudgeEnd(Facts(wait_status));
  }
  Finish(std::move(end), cpu_time);
}

void ExecutorRecord::OnLost() {
  // Nobody else is left to do it.
  transport::RemoveFilesOfTheDead(place_.owner);
  Finish({LeaseEndCause::kServer,
          "the process that executors are forked from has ended, and they with it",
          {}},
         {});
}

void ExecutorRecord::Finish(ExecutorEnd end, absl::Duration cpu_time) {
  std::function<void(const ExecutorEnd&)> on_ended;
  std::unique_ptr<ExecutorGroup> group;
  {
    absl::MutexLock lock(&mutex_);
    if (end_.has_value()) return;
    // The group's, where there is one: with what nobody has waited for, and nothing of others'.
    const absl::Duration of_group = group_ == nullptr ? absl::ZeroDuration() : group_->CpuTime();
    cpu_time_ = std::max(cpu_time_, of_group == absl::ZeroDuration() ? cpu_time : of_group);
    end.cpu_time = cpu_time_;
    end_ = end;
    for (auto& [id, pending] : pending_) {
      pending->answer = EndedStatus();
      pending->done = true;
    }
    pending_.clear();
    on_ended = std::move(events_.on_ended);
    events_ = {};
    group = std::move(group_);
  }
  // With what is left in it, and before anybody hears that the executor has gone.
  group.reset();
  if (on_ended) on_ended(end);
  on_ended = nullptr;
  absl::MutexLock lock(&mutex_);
  told_ = true;
}

KillReason ExecutorRecord::Look(absl::Time now, absl::Time* again) {
  *again = absl::InfiniteFuture();
  absl::MutexLock lock(&mutex_);
  if (end_.has_value()) return KillReason::kNone;
  return limits_.Look(now, ready_, page_.get()->watch.Longest(), again);
}

}  // namespace invoker
