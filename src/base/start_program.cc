#include "src/base/start_program.h"

namespace invoker {

int StartProgram(posix_spawn_file_actions_t* actions, char* const* arguments,
                 char* const* environment, pid_t* pid, const sigset_t& blocked) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  sigset_t signals;
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(pid, arguments[0], actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(actions);
  return error;
}

}  // namespace invoker
