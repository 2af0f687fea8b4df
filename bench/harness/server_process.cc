#include "bench/harness/server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/harness/children.h"

extern char** environ;

namespace invoker::bench {
namespace {

constexpr int64_t kReadyLimitNs = 60'000'000'000;
constexpr int kStopLimitMs = 10'000;
// A process whose output has ended is about to end itself, or has closed its output.
constexpr int kEndLimitMs = 1'000;

int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Waits for the end of a child without taking its status.
bool HasEnded(pid_t pid, int limit_ms) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return false;
  pollfd ended = {fd, POLLIN, 0};
  int found;
  while ((found = poll(&ended, 1, limit_ms)) < 0 && errno == EINTR) {
  }
  close(fd);
  return found > 0;
}

// Reaps, or with WUNTRACED waits for a stop, too.
int WaitFor(pid_t pid, int flags) {
  int status = 0;
  while (waitpid(pid, &status, flags) < 0 && errno == EINTR) {
  }
  return status;
}

// Between fork and exec: only what is safe in a signal handler. Status 127 if it cannot.
[[noreturn]] void Become(pid_t parent, const cpu_set_t& cores, int in, int out, char** arguments,
                         char** environment) {
  // Not SIGTERM, which a stopped process would not see.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) {
    static constexpr char kMessage[] = "cannot run on the core that was asked for\n";
    (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    _exit(127);
  }
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  // Fabric libraries open descriptors without close-on-exec.
  syscall(SYS_close_range, 3u, ~0u, 0u);
  execve(arguments[0], arguments, environment);
  _exit(127);
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> result;
  for (std::string& string : *strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> Environment(const std::vector<std::string>& added) {
  std::vector<std::string> result = added;
  const auto name = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const std::string& other) {
      return name(other) == name(*entry);
    });
    if (!replaced) result.push_back(*entry);
  }
  return result;
}

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const Options& options) {
  if (options.command.empty()) return absl::InvalidArgumentError("no program to start");
  std::vector<std::string> command = options.command;
  if (command[0][0] != '/') command[0] = ProgramPath(command[0]);
  if (access(command[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot start ", command[0], ": ", strerror(errno), "; build it first"));
  }
  std::vector<std::string> environment = Environment(options.environment);
  std::vector<char*> arguments = Pointers(&command);
  std::vector<char*> variables = Pointers(&environment);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    // All that there are: this process may be pinned, and a child would inherit that.
    if (options.core < 0 || options.core == i) CPU_SET(i, &cores);
  }
  // Its input is a socket so that writing to one that has ended is an error, and not SIGPIPE.
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return SystemError("socketpair");
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return SystemError("pipe2");
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    Become(parent, cores, in[1], out[1], arguments.data(), variables.data());
  }
  const int error = errno;
  close(in[1]);
  close(out[1]);
  if (pid < 0) {
    close(in[0]);
    close(out[0]);
    errno = error;
    return SystemError("fork");
  }
  AddChild(pid);
  std::unique_ptr<ServerProcess> process(new ServerProcess(command[0], pid, in[0], out[0]));
  absl::StatusOr<std::string> line = process->ReadLineUntil(NowNs() + kReadyLimitNs);
  if (!line.ok()) return line.status();
  process->first_line_ = *std::move(line);
  return process;
}

ServerProcess::ServerProcess(std::string name, pid_t pid, int in, int out)
    : name_(name.substr(name.rfind('/') + 1)), pid_(pid), in_(in), out_(out) {}

ServerProcess::~ServerProcess() {
  if (!reaped_) {
    kill(pid_, SIGTERM);
    kill(pid_, SIGCONT);
    if (!HasEnded(pid_, kStopLimitMs)) kill(pid_, SIGKILL);
    // Before it is reaped: its number may be another process's right after.
    RemoveChild(pid_);
    WaitFor(pid_, 0);
  }
  close(in_);
  close(out_);
}

absl::StatusOr<std::string> ServerProcess::ReadLine() { return ReadLineUntil(0); }

absl::StatusOr<std::string> ServerProcess::ReadLineUntil(int64_t deadline_ns) {
  while (true) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (deadline_ns != 0) {
      const int64_t left_ms = std::max<int64_t>((deadline_ns - NowNs()) / 1'000'000, 0);
      pollfd readable = {out_, POLLIN, 0};
      const int found = poll(&readable, 1, static_cast<int>(left_ms));
      if (found < 0 && errno == EINTR) continue;
      if (found == 0) {
        return absl::DeadlineExceededError(
            absl::StrCat(name_, " has not written a line for a minute: it is not ready"));
      }
    }
    char buffer[4096];
    const ssize_t got = read(out_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::UnavailableError(absl::StrCat(name_, " ", DescribeEnd(),
                                                 " instead of writing a line; see what it says on "
                                                 "standard error"));
    }
    unread_.append(buffer, static_cast<size_t>(got));
  }
}

absl::Status ServerProcess::WriteLine(absl::string_view line) {
  const std::string text = absl::StrCat(line, "\n");
  for (size_t at = 0; at < text.size();) {
    const ssize_t sent = send(in_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) {
      return absl::UnavailableError(absl::StrCat("cannot write to ", name_, ": ", strerror(errno)));
    }
    at += static_cast<size_t>(sent);
  }
  return absl::OkStatus();
}

std::string ServerProcess::DescribeEnd() {
  if (!reaped_) {
    if (!HasEnded(pid_, kEndLimitMs)) return "closed its standard output";
    RemoveChild(pid_);
    end_ = WaitFor(pid_, 0);
    reaped_ = true;
  }
  return WIFEXITED(end_) ? absl::StrCat("ended with status ", WEXITSTATUS(end_))
                         : absl::StrCat("was killed by signal ", WTERMSIG(end_));
}

absl::Status ServerProcess::Pause() {
  if (paused_) return absl::OkStatus();
  if (!reaped_) {
    kill(pid_, SIGSTOP);
    const int status = WaitFor(pid_, WUNTRACED);
    if (WIFSTOPPED(status)) {
      paused_ = true;
      return absl::OkStatus();
    }
    RemoveChild(pid_);
    end_ = status;
    reaped_ = true;
  }
  return absl::UnavailableError(absl::StrCat(name_, " ", DescribeEnd()));
}

absl::Status ServerProcess::Resume() {
  if (!paused_) return absl::OkStatus();
  if (kill(pid_, SIGCONT) != 0) return SystemError(absl::StrCat("cannot resume ", name_));
  paused_ = false;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ServerProcess::ProcessorTimeNs() const {
  clockid_t clock;
  timespec time;
  if (reaped_ || clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot read the processor time of ", name_));
  }
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

absl::StatusOr<int64_t> ServerProcess::ResidentBytes() const {
  // Counts pages; the sums in status and statm may lag behind.
  std::ifstream file(absl::StrCat("/proc/", pid_, "/smaps_rollup"));
  std::string line;
  while (!reaped_ && std::getline(file, line)) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib;
    if (words.size() == 3 && words[0] == "Rss:" && absl::SimpleAtoi(words[1], &kib)) {
      return kib * 1024;
    }
  }
  return absl::UnavailableError(absl::StrCat("cannot read the memory of ", name_));
}

}  // namespace invoker::bench
