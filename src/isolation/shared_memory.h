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

// Removes what is noted, as far as it is `owner`'s: the functions of that executor may have written
// to the page, and what is another user's they could not have removed themselves.
void RemoveSharedMemory(const ExecutorPage& page, uid_t owner);

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SHARED_MEMORY_H_
