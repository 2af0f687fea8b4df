#include "src/isolation/template_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/isolation/executor_main.h"

namespace invoker {

absl::StatusOr<std::unique_ptr<TemplateProcess>> TemplateProcess::Start(
    const std::vector<std::string>& command, const isolation::v1::ToTemplate::Prepare& prepare) {
  absl::StatusOr<std::pair<UniqueFd, UniqueFd>> sockets = ControlSocket::Pair();
  if (!sockets.ok()) return sockets.status();
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  // What functions print is no part of what the server prints.
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  posix_spawn_file_actions_adddup2(&actions, sockets->second.get(), kControlFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat(
        "cannot start \"", command[0], "\", which executors are forked from: ", strerror(error),
        "; it is built and installed together with the server, in the same directory"));
  }
  std::unique_ptr<TemplateProcess> process(
      new TemplateProcess(command[0], pid, std::move(sockets->first)));
  isolation::v1::ToTemplate message;
  *message.mutable_prepare() = prepare;
  // If it has ended already, reading finds out.
  process->Send(message, {}).IgnoreError();
  return process;
}

TemplateProcess::~TemplateProcess() {
  // It reads the end of its socket, and ends everything.
  shutdown(socket_.fd(), SHUT_RDWR);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status TemplateProcess::WaitUntilPrepared() {
  absl::StatusOr<ControlSocket::Message> message = socket_.Receive(/*wait=*/true);
  isolation::v1::FromTemplate answer;
  if (!message.ok() || !answer.ParseFromString(message->bytes) || !answer.has_prepared()) {
    return absl::UnavailableError(absl::StrCat(
        "\"", program_, "\", which executors are forked from, ended while it started; what it ",
        "printed says why"));
  }
  return absl::Status(static_cast<absl::StatusCode>(answer.prepared().status()),
                      answer.prepared().text());
}

}  // namespace invoker
