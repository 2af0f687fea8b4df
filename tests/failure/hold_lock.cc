// Stands before the C library's pthread_spin_unlock (LD_PRELOAD), so that a process can be made to
// die or to stop in the middle of a call of the provider, while it has a lock that others want.

#include "tests/failure/hold_lock.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

using invoker::LockOf;

// What this thread is to get; 0: nothing.
thread_local int t_signal = 0;
thread_local LockOf t_whose = LockOf::kSelf;

// The process after which the file in /dev/shm is named that the lock lies in; 0: it is in none.
pid_t OwnerOf(const volatile void* lock) {
  FILE* const maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return 0;
  const uintptr_t at = reinterpret_cast<uintptr_t>(lock);
  pid_t owner = 0;
  char line[512];
  while (owner == 0 && fgets(line, sizeof(line), maps) != nullptr) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2 || at < begin || at >= end) {
      continue;
    }
    // invoker.NAMESPACE.PID.START.LAST
    const char* const file = strstr(line, "/dev/shm/");
    if (file == nullptr || sscanf(file, "/dev/shm/invoker.%*u.%d.", &owner) != 1) owner = 0;
  }
  fclose(maps);
  return owner;
}

}  // namespace

extern "C" void InvokerHoldLock(int whose, int signal) {
  t_whose = static_cast<LockOf>(whose);
  t_signal = signal;
}

extern "C" int pthread_spin_unlock(pthread_spinlock_t* lock) {
  static auto* const unlock =
      reinterpret_cast<int (*)(pthread_spinlock_t*)>(dlsym(RTLD_NEXT, "pthread_spin_unlock"));
  if (t_signal != 0) {
    const pid_t owner = OwnerOf(lock);
    const bool self = owner == getpid();
    if (owner != 0 && self == (t_whose == LockOf::kSelf)) raise(std::exchange(t_signal, 0));
  }
  return unlock(lock);
}
