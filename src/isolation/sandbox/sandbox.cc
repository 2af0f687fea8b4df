#include "src/isolation/sandbox/sandbox.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

constexpr char kBubblewrap[] = "/usr/bin/bwrap";
constexpr char kRdmaDevices[] = "/dev/infiniband";

}  // namespace

std::vector<std::string> SandboxCommand(const SandboxNeeds& needs,
                                        const std::vector<std::string>& command) {
  const std::string size = absl::StrCat(kSandboxFileBytes);
  std::vector<std::string> all = {kBubblewrap, "--die-with-parent",
                                  "--ro-bind", "/",
                                  "/",         "--dev",
                                  "/dev",      "--proc",
                                  "/proc",     "--size",
                                  size,        "--tmpfs",
                                  "/tmp"};
  if (needs.shared_memory) {
    all.insert(all.end(), {"--bind", "/dev/shm", "/dev/shm"});
  } else {
    all.insert(all.end(),
               {"--unshare-ipc", "--unshare-pid", "--size", size, "--tmpfs", "/dev/shm"});
  }
  if (!needs.network) {
    all.emplace_back("--unshare-net");
  } else if (access(kRdmaDevices, F_OK) == 0) {
    all.insert(all.end(), {"--dev-bind", kRdmaDevices, kRdmaDevices});
  }
  all.emplace_back("--");
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

absl::Status CheckSandbox() {
  if (access(kBubblewrap, X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no ", kBubblewrap,
                     ", which executors are to be run in: install Debian's package bubblewrap, or "
                     "use --sandbox=none"));
  }
  const std::vector<std::string> command = SandboxCommand({}, {"/bin/true"});
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = 0;
  int status = -1;
  if (posix_spawn(&pid, kBubblewrap, nullptr, nullptr, arguments.data(), environ) == 0) {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      kBubblewrap, " does not work here (its message is above): it must know --size (version 0.7 ",
      "or newer), and the kernel must allow user namespaces to this user ",
      "(user.max_user_namespaces, kernel.unprivileged_userns_clone); or use --sandbox=none"));
}

}  // namespace invoker
