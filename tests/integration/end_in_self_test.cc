// For LD_PRELOAD: invoker_self_test ends, or hangs, as soon as a provider has made a file in shared
// memory. INVOKER_TEST_END says how: "segv", "exit" or "hang". Its process number goes to the file
// that INVOKER_TEST_END_FILE names. Other programs are left alone.

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void End(const std::string& how) {
  if (const char* path = getenv("INVOKER_TEST_END_FILE")) {
    if (FILE* file = fopen(path, "w")) {
      fprintf(file, "%d\n", static_cast<int>(getpid()));
      fclose(file);
    }
  }
  if (how == "exit") _exit(7);
  if (how == "segv") {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  while (true) pause();
}

}  // namespace

extern "C" int shm_open(const char* name, int flags, mode_t mode) {
  using Open = int (*)(const char*, int, mode_t);
  static const Open next = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "shm_open"));
  const int fd = next(name, flags, mode);
  const char* how = getenv("INVOKER_TEST_END");
  if (fd >= 0 && how != nullptr &&
      strcmp(program_invocation_short_name, "invoker_self_test") == 0) {
    End(how);
  }
  return fd;
}
