// Template: how executors are made.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/invoke/fabrics/served_fabrics.h"
#include "src/isolation/process/process_tree.h"
#include "src/isolation/process/template.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker {
namespace {

using isolation::v1::Environment;
using isolation::v1::FromExecutor;
using isolation::v1::FromTemplate;
using isolation::v1::ToExecutor;
using isolation::v1::ToTemplate;

// Answers the server's first request, for a process that cannot become an executor.
[[noreturn]] void Refuse(UniqueFd control, const absl::Status& status) {
  ControlSocket socket(std::move(control), ControlSocket::Takes::kDescriptors);
  ToExecutor start;
  if (auto message = socket.Receive(/*wait=*/true); message.ok()) {
    start.ParseFromString(message->bytes);
  }
  FromExecutor answer;
  answer.set_id(start.id());
  answer.set_status(static_cast<uint32_t>(status.code()));
  answer.set_text(std::string(status.message()));
  socket.Send(answer.SerializeAsString(), {}, /*wait=*/true).IgnoreError();
  _exit(1);
}

// Keeps this process, and what it starts, on one processor core, counted from 1; 0: on any.
absl::Status BindTo(uint32_t core) {
  if (core == 0) return absl::OkStatus();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core - 1, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot run on processor core ", core - 1, " alone: ", strerror(errno)));
}

}  // namespace

void Template::Prepare(const ToTemplate::Prepare& request) {
  FromTemplate answer;
  const auto finish = [&](const absl::Status& status) {
    answer.mutable_prepared()->set_status(static_cast<uint32_t>(status.code()));
    answer.mutable_prepared()->set_text(std::string(status.message()));
    Tell(answer);
  };
  absl::StatusOr<ExecutorUser> user = FindExecutorUser(request.user());
  if (!user.ok()) return finish(user.status());
  user_ = *user;
  group_ = request.group();
  const Environment& environment = request.environment();
  FabricAddresses addresses;
  addresses.given = environment.given_address();
  addresses.preferred_ip = environment.preferred_ip();
  // Each executor asks again, for a fraction of what this takes: some providers put the process's
  // id into their answer.
  const std::vector<std::string> providers(environment.providers().begin(),
                                           environment.providers().end());
  // Then each executor starts libfabric by itself, and what is wrong is told by the first one.
  if (std::any_of(providers.begin(), providers.end(), [](const std::string& provider) {
        return transport::FindRow(provider).start_per_process;
      })) {
    return finish(absl::OkStatus());
  }
  const absl::StatusOr<ServedFabrics> served =
      SelectServedFabrics(providers, addresses, environment.window_bytes(), {});
  if (!served.ok()) return finish(served.status());
  const std::vector<std::string> threads = OtherThreads();
  if (!threads.empty()) {
    return finish(absl::FailedPreconditionError(absl::StrCat(
        "a library that the fabrics need has started threads (", absl::StrJoin(threads, ", "),
        "), so executors cannot be forked; leave out fabrics with --provider until they can")));
  }
  finish(absl::OkStatus());
}

void Template::Spawn(const ToTemplate::Spawn& request, std::vector<UniqueFd> fds) {
  FromTemplate answer;
  answer.mutable_spawned()->set_id(request.id());
  if (fds.size() != 2 && fds.size() != 3) {
    answer.mutable_spawned()->set_text(
        absl::StrCat("the request came with ", fds.size(), " descriptors, not with two or three"));
    return Tell(answer);
  }
  const pid_t self = getpid();
  if (hooks_.before_fork) hooks_.before_fork();
  const pid_t pid = fork();
  const int error = errno;
  if (pid == 0) Child(request, std::move(fds), self);
  if (hooks_.after_fork_parent) hooks_.after_fork_parent();
  if (pid > 0) {
    const uid_t owner = user_.change ? UserOf(request).uid : geteuid();
    executors_.emplace(pid, Executor{request.id(), owner});
    answer.mutable_spawned()->set_pid(pid);
  } else {
    answer.mutable_spawned()->set_text(absl::StrCat("fork: ", strerror(error)));
  }
  Tell(answer);
}

void Template::Child(const ToTemplate::Spawn& request, std::vector<UniqueFd> fds, pid_t parent) {
  close(socket_.fd());
  child_events_.Reset();
  const sigset_t blocked = EndSignals();
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  UniqueFd control = std::move(fds[0]);
  UniqueFd page = std::move(fds[1]);
  // Before it is another user, and before it starts anything.
  if (fds.size() == 3 && write(fds[2].get(), "0", 1) != 1) {
    Refuse(std::move(control), absl::ResourceExhaustedError(absl::StrCat(
                                   "cannot join the executor's cgroup: ", strerror(errno))));
  }
  if (fds.size() == 3) fds[2].Reset();
  if (absl::Status status = BindTo(request.core()); !status.ok()) {
    Refuse(std::move(control), status);
  }
  if (absl::Status status = BecomeExecutor(parent, UserOf(request)); !status.ok()) {
    Refuse(std::move(control), status);
  }
  if (request.command().empty()) {
    if (hooks_.after_fork_child) hooks_.after_fork_child();
    RunExecutor(std::move(control), std::move(page), hooks_);
  }
  // Out of the way of each other first.
  const UniqueFd high_control(fcntl(control.get(), F_DUPFD_CLOEXEC, kPageFd + 1));
  const UniqueFd high_page(fcntl(page.get(), F_DUPFD_CLOEXEC, kPageFd + 1));
  dup2(high_control.get(), kControlFd);
  dup2(high_page.get(), kPageFd);
  std::vector<char*> arguments;
  for (const std::string& argument : request.command()) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  Refuse(UniqueFd(kControlFd), absl::FailedPreconditionError(absl::StrCat(
                                   "cannot run ", arguments[0], ": ", strerror(errno))));
}

}  // namespace invoker
