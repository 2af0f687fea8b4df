// Notes, in the page that an executor's process shares with its server, how the process is about to
// end: by a signal, by exit(3), or for want of memory. Then it ends, by the same way.
//
// There is one of these for the process: signal handlers have nowhere else to keep things.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_END_HANDLERS_H_
#define INVOKER_SRC_ISOLATION_PROCESS_END_HANDLERS_H_

#include <cstdint>

#include "src/isolation/process/executor_page.h"

namespace invoker {

// Takes the signals of faults and of abort(3), and exit(3). `page` stays mapped for the life of the
// process. Not before fabrics have been opened: a provider's library may take some of these too.
void InstallEndHandlers(ExecutorPage* page);

// On every thread that may run foreign code: a stack for the handlers, since its own may be what
// has overflowed.
void UseSignalStack();

// From now on an allocation with `new` that fails ends the process: it is at its memory limit, as
// if the kernel had ended it there.
void EndWhenOutOfMemory();

// Ends the process after a function has written outside of its memory. An OverrunHandler.
void EndForOverrun(const char* function, uint64_t written, uint64_t capacity);

// For the end that is wanted: exit statuses are not noted any more.
[[noreturn]] void EndQuietly();

// The process's address space in use, in bytes; 0: unknown. Safe in a signal handler.
uint64_t AddressSpaceBytes();

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_END_HANDLERS_H_
