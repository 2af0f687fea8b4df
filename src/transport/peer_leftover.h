// What the endpoints of a process on this host leave in /dev/shm when it is killed: files of some
// megabytes, which nobody else removes.
//
// Any thread. Without libfabric.

#ifndef INVOKER_SRC_TRANSPORT_PEER_LEFTOVER_H_
#define INVOKER_SRC_TRANSPORT_PEER_LEFTOVER_H_

#include <sys/types.h>

#include "absl/strings/string_view.h"

namespace invoker::transport {

// The process of an endpoint on this host whose address has the form of a name,
// "SCHEME://PID:UID:COUNT". 0 for every other address, whatever a peer has sent.
pid_t ProcessOf(absl::string_view address);

// Removes the file "PID:UID:COUNT" of an endpoint of this process's, by its address, where that has
// this form: for one that is never closed. Who has it mapped keeps it.
void RemoveFileOf(absl::string_view address);

// Removes the files "PID:UID:COUNT" that process `pid` has left: those of this process's user that
// `pid` does not have mapped, because it has ended, or is another by now. The number is this
// process's view: of a process in another PID namespace that lives this takes the names away. Does
// nothing where this process may not look at that one.
void RemoveLeftovers(pid_t pid);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_PEER_LEFTOVER_H_
