// What executors are forked from: one thread, with libfabric started, unless a fabric forbids that.
//
// How what a function has started is found when its executor ends: every executor is a "child
// subreaper", so while it lives, whatever descends from it and loses its parent becomes its child.
// When it ends, its children become this process's, which is a subreaper too. So a child of this
// process that is no executor is what an executor that has ended has left behind, and is killed;
// then its own children come here, and so on, until there is none. Neither setsid(2) nor a double
// fork escapes that; new process ids are not trusted, since only this process waits for them. An
// executor that gives up being a subreaper only makes its orphans come here sooner. What does
// escape is what another program has started at a function's request: a daemon that listens to
// strangers, such as at or a service manager. If this process itself is killed, executors end with
// it (PR_SET_PDEATHSIG), but what they have started does only where they have groups of the
// kernel's (control_group.h), which end strays at once. Without those, what forks faster than it is
// looked for is killed again and again for as long as it goes on, and the executor's end is told
// meanwhile; and it outlives a server that ends.

#include "src/isolation/process/template.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "src/isolation/limits/control_group_place.h"
#include "src/isolation/process/end_reason.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/process/process_tree.h"
#include "src/transport/base/shared_files.h"

namespace invoker {
namespace {

using isolation::v1::FromTemplate;
using isolation::v1::ToTemplate;

// How often strays are looked for before an executor's end is told even if there were some each
// time.
constexpr int kMostScans = 16;
// How often those that are stopped are looked at in the time that they may be.
constexpr int kLooksPerLimit = 8;

// How long it is done at the server's end, while there are some.
constexpr absl::Duration kEndLimit = absl::Seconds(2);

uint64_t Microseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1000000 + static_cast<uint64_t>(time.tv_usec);
}

}  // namespace

bool Template::Handle(ControlSocket::Message message) {
  ToTemplate request;
  if (!request.ParseFromString(message.bytes)) return false;
  switch (request.message_case()) {
    case ToTemplate::kPrepare:
      Prepare(request.prepare());
      return true;
    case ToTemplate::kSpawn:
      Spawn(request.spawn(), std::move(message.fds));
      return true;
    case ToTemplate::kKill:
      for (const auto& [pid, executor] : executors_) {
        if (executor.id == request.kill().id()) kill(pid, SIGKILL);
      }
      return true;
    default:
      return false;
  }
}

// Kills what executors that have ended have left. False if there was nothing.
bool Template::KillStrays() {
  bool any = false;
  for (const pid_t pid : OwnChildren()) {
    if (executors_.count(pid) != 0) continue;
    kill(pid, SIGKILL);
    any = true;
  }
  return any;
}

void Template::Reap() {
  signalfd_siginfo event;
  while (read(child_events_.get(), &event, sizeof(event)) == sizeof(event)) {
  }
  uint64_t strays_us = 0;
  int status = 0;
  rusage usage;
  pid_t pid;
  while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage)) > 0) {
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      if (const auto one = executors_.find(pid); one != executors_.end()) {
        NoteStop(&one->second, status);
      }
      continue;
    }
    const uint64_t cpu_us = Microseconds(usage.ru_utime) + Microseconds(usage.ru_stime);
    const auto found = executors_.find(pid);
    if (found == executors_.end()) {
      strays_us += cpu_us;
      continue;
    }
    ends_.push_back({found->second.id, static_cast<uint32_t>(status), cpu_us, found->second.owner,
                     0, found->second.killed_for_it});
    executors_.erase(found);
  }
  if (ends_.empty() && !strays_) return;
  // Nobody knows which of several executors that ended at once had started the strays: the last one
  // gets their time. The time of strays that are found after the end was told is lost.
  if (!ends_.empty()) ends_.back().cpu_us += strays_us;
  // Their ends are events, which lead here again.
  strays_ = KillStrays();
  std::vector<End> waiting;
  for (End& end : ends_) {
    if (strays_ && ++end.scans < kMostScans) {
      waiting.push_back(end);
      continue;
    }
    transport::RemoveFilesOfTheDead(end.owner);
    FromTemplate message;
    message.mutable_ended()->set_id(end.id);
    message.mutable_ended()->set_wait_status(end.wait_status);
    message.mutable_ended()->set_cpu_us(end.cpu_us);
    message.mutable_ended()->set_was_stopped(end.was_stopped);
    Tell(message);
  }
  ends_.swap(waiting);
}

void Template::NoteStop(Executor* executor, int status) {
  if (WIFCONTINUED(status)) {
    executor->stopped_at = absl::InfiniteFuture();
  } else if (executor->stopped_at == absl::InfiniteFuture()) {
    executor->stopped_at = MonotonicNow();
  }
}

// `absence` is how long this process itself has not run: not held against an executor that may just
// have been made to go on, as this one has been.
absl::Time Template::LookAtStopped(absl::Duration absence) {
  absl::Time next = absl::InfiniteFuture();
  const absl::Time now = MonotonicNow();
  for (auto& [pid, executor] : executors_) {
    if (executor.stopped_at == absl::InfiniteFuture() || executor.killed_for_it) continue;
    executor.stopped_at += absence;
    const absl::Time limit = executor.stopped_at + kStoppedLimit;
    if (limit > now) {
      next = std::min(next, limit);
      continue;
    }
    executor.killed_for_it = true;
    kill(pid, SIGKILL);
  }
  return next;
}

void Template::EndAll() {
  std::set<uid_t> owners;
  for (const End& end : ends_) owners.insert(end.owner);
  for (const auto& [pid, executor] : executors_) {
    owners.insert(executor.owner);
    kill(pid, SIGKILL);
  }
  // What they have started too, if the server was killed and has not done it.
  if (!group_.empty()) EndGroups(group_);
  const absl::Time limit = MonotonicNow() + kEndLimit;
  for (absl::Time now = MonotonicNow(); now < limit; now = MonotonicNow()) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid < 0) break;  // there are no children at all
    if (pid > 0) continue;
    KillStrays();
    pollfd ended = {child_events_.get(), POLLIN, 0};
    poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(limit - now)) + 1);
    signalfd_siginfo ignored;
    while (read(child_events_.get(), &ignored, sizeof(ignored)) == sizeof(ignored)) {
    }
  }
  // Where this process was late, they have ended meanwhile.
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  for (const uid_t owner : owners) transport::RemoveFilesOfTheDead(owner);
  // A server that was killed cannot do it.
  if (!group_.empty()) RemoveEmptyGroups(group_);
}

int Template::Run() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  child_events_.Reset(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!child_events_.valid() || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return 1;
  absl::Duration absence;
  while (true) {
    const absl::Time next = LookAtStopped(absence);
    absence = absl::ZeroDuration();
    int timeout_ms = -1;
    absl::Time due_back = absl::InfiniteFuture();
    if (next != absl::InfiniteFuture()) {
      due_back = std::min(next, MonotonicNow() + kStoppedLimit / kLooksPerLimit);
      timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(due_back - MonotonicNow())) + 1;
    }
    pollfd events[2] = {{socket_.fd(), POLLIN, 0}, {child_events_.get(), POLLIN, 0}};
    const int ready = poll(events, 2, std::max(timeout_ms, -1));
    if (due_back != absl::InfiniteFuture()) {
      absence = std::max(absl::ZeroDuration(), MonotonicNow() - due_back);
    }
    if (ready < 0) continue;
    if (events[1].revents != 0) Reap();
    if (events[0].revents == 0) continue;
    absl::StatusOr<ControlSocket::Message> message = socket_.Receive(/*wait=*/false);
    if (absl::IsNotFound(message.status())) continue;
    if (!message.ok() || !Handle(*std::move(message))) break;
  }
  EndAll();
  return 0;
}

int RunTemplate(UniqueFd control, const ExecutorHooks& hooks) {
  // A terminal's signals are for the server.
  setsid();
  signal(SIGPIPE, SIG_IGN);
  CloseFrom(kControlFd + 1);
  return Template(std::move(control), hooks).Run();
}

}  // namespace invoker
