#include "src/launch/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/base/start_program.h"

namespace invoker::launch {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* const end = strchr(*entry, '=');
    const std::string name =
        end == nullptr ? *entry : std::string(*entry, static_cast<size_t>(end - *entry));
    if (variables.count(name) == 0) entries.emplace_back(*entry);
  }
  for (const auto& [name, value] : variables) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Start(const ProgramSettings& settings) {
  std::vector<std::string> command = settings.command;
  std::vector<std::string> environment = EnvironmentWith(settings.variables);
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> entries = Pointers(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (settings.output == kNowhere) {
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  }
  if (settings.output >= 0) posix_spawn_file_actions_adddup2(&actions, settings.output, 1);
  if (settings.errors >= 0) posix_spawn_file_actions_adddup2(&actions, settings.errors, 2);
  if (!settings.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, settings.folder.c_str());
  }
  pid_t pid = 0;
  const int error = StartProgram(&actions, arguments.data(), entries.data(), &pid);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat("cannot start ", command[0], ": ", strerror(error)));
  }
  UniqueFd end(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const int refused = errno;
  std::unique_ptr<Program> program(new Program(pid, std::move(end)));
  if (!program->end_.valid()) {
    return absl::UnavailableError(
        absl::StrCat("pidfd_open: ", strerror(refused), "; this needs Linux 5.3"));
  }
  return program;
}

Program::~Program() {
  Signal(SIGKILL);
  Wait();
}

void Program::Signal(int number) {
  if (!ended_) kill(pid_, number);
}

bool Program::AwaitEnd(absl::Duration limit) {
  if (ended_) return true;
  const absl::Duration most = std::min(limit, absl::Hours(24));
  pollfd end = {end_.get(), POLLIN, 0};
  return poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(most))) > 0;
}

int Program::Wait() {
  while (!ended_) {
    if (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) continue;
    ended_ = true;
  }
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

absl::StatusOr<std::string> RunCommand(const std::vector<std::string>& command, int stop_fd) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("pipe: ", strerror(errno)));
  }
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  ProgramSettings settings;
  settings.command = command;
  settings.output = input.get();
  settings.errors = input.get();
  absl::StatusOr<std::unique_ptr<Program>> program = Program::Start(settings);
  if (!program.ok()) return program.status();
  input.Reset();
  std::string text;
  while (true) {
    pollfd events[] = {{output.get(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    if (poll(events, 2, -1) < 0) continue;
    if (events[1].revents != 0) return absl::CancelledError("told to stop");
    char part[4096];
    const ssize_t size = read(output.get(), part, sizeof(part));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(part, static_cast<size_t>(size));
  }
  const int status = (*program)->Wait();
  if (status == 0) return text;
  return absl::UnavailableError(absl::StrCat(command[0], " ended with status ", status, ": ",
                                             absl::StripAsciiWhitespace(text)));
}

}  // namespace invoker::launch
