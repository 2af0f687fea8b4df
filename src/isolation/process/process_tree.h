// Looks at the calling process's children and threads.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_PROCESS_TREE_H_
#define INVOKER_SRC_ISOLATION_PROCESS_PROCESS_TREE_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace invoker {

// Children of the calling process, zombies included. One look: what is forked meanwhile may be
// missing.
std::vector<pid_t> OwnChildren();

// Names of the calling process's threads but its first.
std::vector<std::string> OtherThreads();

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_PROCESS_TREE_H_
