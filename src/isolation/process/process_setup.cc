#include "src/isolation/process/process_setup.h"

#include <dirent.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace invoker {
namespace {

constexpr char kNobody[] = "nobody";

constexpr int kEndSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

// Sessions take some descriptors each (tcp connections); functions, what they open.
constexpr rlim_t kMostDescriptors = 4096;
// Processes and threads of the executors' user: of all executors together, or of one.
constexpr rlim_t kMostProcesses = 8192;
constexpr rlim_t kMostProcessesOfOne = 1024;

absl::Status Failed(const char* what) {
  return absl::InternalError(
      absl::StrCat("cannot set up an executor's process: ", what, ": ", strerror(errno)));
}

absl::Status Limit(int resource, rlim_t most, const char* name) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return Failed(name);
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(resource, &limit) == 0 ? absl::OkStatus() : Failed(name);
}

// Nothing of what is no range.
absl::StatusOr<ExecutorUser> ParseRange(const std::string& name) {
  ExecutorUser user;
  const std::vector<absl::string_view> ends = absl::StrSplit(name, '-');
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &user.uid) ||
      !absl::SimpleAtoi(ends[1], &user.last_uid)) {
    return absl::NotFoundError("");
  }
  // -1 stands for nobody at all where users are set.
  if (user.uid == 0 || user.last_uid <= user.uid || user.last_uid == static_cast<uid_t>(-1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("executors are to run as users \"", name, "\"; a range is LOW-HIGH, two ",
                     "numbers of users that nobody else is, not root's, the lower one first"));
  }
  user.change = true;
  user.gid = user.uid;
  return user;
}

void OnEndSignal(int) {}

}  // namespace

absl::StatusOr<ExecutorUser> FindExecutorUser(const std::string& name) {
  if (name.empty() && geteuid() != 0) return ExecutorUser();
  const std::string wanted = name.empty() ? kNobody : name;
  const absl::StatusOr<ExecutorUser> range = ParseRange(wanted);
  if (absl::IsInvalidArgument(range.status())) return range.status();
  if (range.ok() && geteuid() == 0) return range;
  errno = 0;
  const passwd* entry = getpwnam(wanted.c_str());
  if (entry == nullptr && !range.ok()) {
    return absl::NotFoundError(absl::StrCat(
        "executors are to run as user \"", wanted, "\", whom this machine does not know",
        errno == 0 ? "" : absl::StrCat(" (", strerror(errno), ")"), "; name another one"));
  }
  if (entry != nullptr && entry->pw_uid == geteuid()) return ExecutorUser();
  if (geteuid() != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("executors are to run as user \"", wanted,
                     "\", and only root can start processes of another user; run the server as "
                     "root, or as that user"));
  }
  return ExecutorUser{true, entry->pw_uid, entry->pw_gid};
}

absl::Status BecomeExecutor(pid_t parent, const ExecutorUser& user) {
  if (setsid() < 0) return Failed("setsid");
  // Else a daemon that a function has started could not be told to be this executor's.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return Failed("PR_SET_CHILD_SUBREAPER");
  absl::Status status = Limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
  if (status.ok()) status = Limit(RLIMIT_NOFILE, kMostDescriptors, "RLIMIT_NOFILE");
  // For the server's own user it would count what is not an executor's.
  if (status.ok() && user.change) {
    status =
        Limit(RLIMIT_NPROC, user.several() ? kMostProcessesOfOne : kMostProcesses, "RLIMIT_NPROC");
  }
  if (!status.ok()) return status;
  if (user.change) {
    if (setgroups(0, nullptr) != 0) return Failed("setgroups");
    if (setresgid(user.gid, user.gid, user.gid) != 0) return Failed("setresgid");
    if (setresuid(user.uid, user.uid, user.uid) != 0) return Failed("setresuid");
    setenv("HOME", "/", 1);
  }
  // Where the server was started is none of its business, and may be where it must not look.
  if (chdir("/") != 0) return Failed("chdir");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Failed("PR_SET_NO_NEW_PRIVS");
  // Last: a change of user clears it.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return Failed("PR_SET_PDEATHSIG");
  // The parent may have ended before that.
  if (getppid() != parent) return absl::UnavailableError("the template process has ended");
  return absl::OkStatus();
}

sigset_t EndSignals() {
  sigset_t all;
  sigemptyset(&all);
  for (const int signal : kEndSignals) sigaddset(&all, signal);
  return all;
}

void IgnoreEndSignals() {
  // Handled, since what is ignored or blocked is so in a program that a function starts, too.
  struct sigaction action = {};
  action.sa_handler = &OnEndSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : kEndSignals) sigaction(signal, &action, nullptr);
  const sigset_t all = EndSignals();
  sigprocmask(SIG_UNBLOCK, &all, nullptr);
}

void CloseFrom(int first) {
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0u, 0u) == 0) return;
  // Linux before 5.9.
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return;
  std::vector<int> open;
  while (const dirent* entry = readdir(directory)) {
    const int fd = atoi(entry->d_name);
    if (fd >= first && fd != dirfd(directory)) open.push_back(fd);
  }
  closedir(directory);
  for (const int fd : open) close(fd);
}

}  // namespace invoker
