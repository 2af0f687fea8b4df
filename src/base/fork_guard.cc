#include "src/base/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>

namespace invoker {
namespace fork_guard_internal {

std::atomic<bool> is_child{false};

void EndChild() { _exit(0); }

}  // namespace fork_guard_internal

void InstallForkGuard() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr,
                   [] { fork_guard_internal::is_child.store(true, std::memory_order_relaxed); });
  });
}

}  // namespace invoker
