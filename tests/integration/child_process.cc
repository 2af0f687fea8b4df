#include "tests/integration/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace invoker {
namespace {

std::vector<std::string> MakeEnvironment(const std::vector<std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool changed = std::any_of(
        changes.begin(), changes.end(),
        [&](const std::string& change) { return change.substr(0, change.find('=')) == name; });
    if (!changed) result.push_back(text);
  }
  for (const std::string& change : changes) {
    if (change.find('=') != std::string::npos) result.push_back(change);
  }
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> result;
  for (std::string& string : *strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// A file without a name that holds `data`.
int MakeInput(const std::string& data) {
  const int fd = memfd_create("stdin", MFD_CLOEXEC);
  size_t at = 0;
  while (fd >= 0 && at < data.size()) {
    const ssize_t written = write(fd, data.data() + at, data.size() - at);
    if (written <= 0) break;
    at += static_cast<size_t>(written);
  }
  if (fd >= 0) lseek(fd, 0, SEEK_SET);
  return fd;
}

// Between fork and exec: only what is safe in a signal handler.
[[noreturn]] void Become(pid_t parent, int in, int out, int err, char** arguments,
                         char** environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  // Libraries open descriptors without close-on-exec, and a child that holds a socket of its
  // parent's keeps it open.
  syscall(SYS_close_range, 3u, ~0u, 0u);
  execve(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const Options& options) {
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = MakeEnvironment(options.environment);
  std::vector<char*> arguments = Pointers(&command);
  std::vector<char*> variables = Pointers(&environment);
  int out[2], err[2];
  const int in = options.stdin_fd >= 0 ? options.stdin_fd : MakeInput(options.input);
  if (in < 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("cannot make pipes: ", strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    Become(parent, in, options.stdout_fd >= 0 ? options.stdout_fd : out[1], err[1],
           arguments.data(), variables.data());
  }
  close(out[1]);
  close(err[1]);
  if (options.stdin_fd < 0) close(in);
  if (pid < 0) return absl::InternalError(absl::StrCat("fork: ", strerror(errno)));
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, out[0], err[0]));
}

ChildProcess::ChildProcess(pid_t pid, int out, int err)
    : pid_(pid), reader_([this, out, err] { Read(out, err); }) {}

ChildProcess::~ChildProcess() {
  if (exit_code_ < 0) {
    Signal(SIGKILL);
    Wait();
  }
  reader_.join();
}

void ChildProcess::Signal(int number) {
  if (exit_code_ < 0) kill(pid_, number);
}

int ChildProcess::Wait() {
  if (exit_code_ >= 0) return exit_code_;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended = {fd, POLLIN, 0};
  const timespec patience = absl::ToTimespec(kPatience);
  if (fd < 0 || ppoll(&ended, 1, &patience, nullptr) == 0) kill(pid_, SIGKILL);
  if (fd >= 0) close(fd);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&output_ended_), kPatience);
  return exit_code_;
}

std::string ChildProcess::Output() {
  absl::MutexLock lock(&mutex_);
  return output_;
}

std::string ChildProcess::Errors() {
  absl::MutexLock lock(&mutex_);
  return errors_;
}

bool ChildProcess::AwaitErrors(const std::string& text) {
  absl::MutexLock lock(&mutex_);
  const auto found = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return output_ended_ || errors_.find(text) != std::string::npos;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&found), kPatience);
  return errors_.find(text) != std::string::npos;
}

absl::StatusOr<std::string> ChildProcess::FirstLine() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return output_ended_ || output_.find('\n') != std::string::npos;
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&ready), kPatience)) {
    return absl::DeadlineExceededError(absl::StrCat("no line; standard error: ", errors_));
  }
  const size_t end = output_.find('\n');
  if (end == std::string::npos) {
    return absl::UnavailableError(absl::StrCat("ended without a line; standard error: ", errors_));
  }
  return output_.substr(0, end);
}

void ChildProcess::Read(int out, int err) {
  pollfd streams[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::vector<char> buffer(1 << 16);
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (poll(streams, 2, -1) < 0) continue;
    for (pollfd& stream : streams) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      const ssize_t got = read(stream.fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      absl::MutexLock lock(&mutex_);
      if (got > 0) {
        (&stream == streams ? output_ : errors_).append(buffer.data(), static_cast<size_t>(got));
      } else {
        close(stream.fd);
        stream.fd = -1;
      }
    }
  }
  absl::MutexLock lock(&mutex_);
  output_ended_ = true;
}

Finished RunToEnd(const ChildProcess::Options& options) {
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(options);
  if (!child.ok()) return {-1, "", std::string(child.status().message())};
  Finished result;
  result.exit_code = (*child)->Wait();
  result.output = (*child)->Output();
  result.errors = (*child)->Errors();
  return result;
}

}  // namespace invoker
