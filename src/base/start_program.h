// Starts a program in a process of its own.

#ifndef INVOKER_SRC_BASE_START_PROGRAM_H_
#define INVOKER_SRC_BASE_START_PROGRAM_H_

#include <signal.h>
#include <spawn.h>
#include <sys/types.h>

namespace invoker {

// Starts `arguments[0]`, a path or the name of a program in PATH, after `actions`. In the new
// process the signals in `blocked` are blocked and no others, and none is ignored or handled: the
// caller's threads may block signals that its programs need. Both arrays end with a null pointer.
// `actions` are destroyed. Returns 0 and sets `pid`, or returns an errno. Any thread.
int StartProgram(posix_spawn_file_actions_t* actions, char* const* arguments,
                 char* const* environment, pid_t* pid, const sigset_t& blocked = {});

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_START_PROGRAM_H_
