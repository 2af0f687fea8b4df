#include "bench/harness/children.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

namespace invoker::bench {
namespace {

// A signal handler reads it, so no container. A benchmark has a handful; those beyond are killed
// with this process, as all are.
constexpr int kMost = 64;
std::atomic<pid_t> children[kMost];

// A second signal while this waits ends the process: handlers are reset when they run.
void EndChildren(int number) {
  for (const std::atomic<pid_t>& child : children) {
    if (const pid_t pid = child.load(); pid > 0) {
      kill(pid, SIGTERM);
      kill(pid, SIGCONT);
    }
  }
  for (const std::atomic<pid_t>& child : children) {
    if (const pid_t pid = child.load(); pid > 0) waitpid(pid, nullptr, 0);
  }
  raise(number);
}

void Handle() {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old;
    sigaction(number, nullptr, &old);
    // One that a caller ignores, as nohup does, stays ignored.
    if (old.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = EndChildren;
    action.sa_flags = SA_RESETHAND;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace

void AddChild(pid_t pid) {
  static const bool handled = (Handle(), true);
  (void)handled;
  for (std::atomic<pid_t>& child : children) {
    pid_t none = 0;
    if (child.compare_exchange_strong(none, pid)) return;
  }
}

void RemoveChild(pid_t pid) {
  for (std::atomic<pid_t>& child : children) {
    pid_t expected = pid;
    child.compare_exchange_strong(expected, 0);
  }
}

}  // namespace invoker::bench
