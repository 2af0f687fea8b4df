// What an executor's endpoints have made in /dev/shm outlives the process if that is killed. So the
// process notes the names, and who forked it removes them.

#ifndef INVOKER_SRC_ISOLATION_SHARED_MEMORY_H_
#define INVOKER_SRC_ISOLATION_SHARED_MEMORY_H_

#include <sys/types.h>

#include "src/isolation/executor_page.h"

namespace invoker {

// Notes what the calling process has mapped from /dev/shm. It must have no sessions yet: what it
// maps then is its own, and later its peers' too.
void NoteSharedMemory(ExecutorPage* page);

// Removes, after the end of the executor that was process `pid`, what is noted, and files whose
// name begins with "PID:", as endpoints name theirs: those opened later, and what its functions
// made with the same libraries. Only regular files of `owner`'s: the functions of that executor may
// have written to the page, and what is another user's they could not have removed themselves. What
// functions have made under other names stays: it does not say whose it is.
void RemoveSharedMemory(const ExecutorPage& page, pid_t pid, uid_t owner);

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SHARED_MEMORY_H_
