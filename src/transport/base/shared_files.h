// Files that endpoints have in /dev/shm: their names, and the removal of files that processes have
// left which were killed. Such a file has some megabytes, and nothing else would remove it.
//
// A name is "invoker.NAMESPACE.PID.START.LAST": the PID namespace's number, the process's number in
// it, when the process started (clock ticks, from the system's start), and what tells the process's
// files apart. So a name says for certain which process made the file, even when the process's
// number is another's by now. All processes of a PID namespace are taken to be of one time
// namespace.
//
// Any thread. Without libfabric.

#ifndef INVOKER_SRC_TRANSPORT_BASE_SHARED_FILES_H_
#define INVOKER_SRC_TRANSPORT_BASE_SHARED_FILES_H_

#include <sys/types.h>

#include <string>

#include "absl/strings/string_view.h"

namespace invoker::transport {

// The beginning of the names of process `pid`'s files. The process is alive and in this process's
// PID namespace. Empty if /proc does not tell.
std::string SharedFilePrefix(pid_t pid);

// A name for a new file of this process's, with `last` (letters, digits and '-') at its end, or, if
// that is empty, 64 random bits, which nobody can have taken. Before the first one, removes what
// dead processes of this user have left. Empty if the system does not tell what a name needs.
std::string NewSharedFileName(absl::string_view last = "");

// Whether an endpoint's address, "SCHEME://NAME", is a name of this form, whatever a peer has sent.
bool NamesSharedFile(absl::string_view address);

// Where the file of the endpoint with this address is. Empty if the address names none of ours.
std::string SharedFilePath(absl::string_view address);

// Removes the file of an endpoint of this process's that is never closed, by its address, where
// that names one. Processes that have it mapped keep it.
void RemoveFileOf(absl::string_view address);

// Beside that of an endpoint: a SleepFlag's.
inline constexpr absl::string_view kSleepWordSuffix = "-asleep";
inline constexpr absl::string_view kWakeFifoSuffix = "-wake";

// Removes the files beside that of an endpoint of this process's, by its address, and does nothing
// in a fork of that process. Processes that have them open keep them.
void RemoveFilesBeside(absl::string_view address);

// Removes all files of this process's, which is about to end. Others that have them mapped keep
// them.
void RemoveOwnFiles();

// Removes `owner`'s files of processes that are certainly dead. What another PID namespace's
// process has made stays, and so does what does not say who made it. Reads the directory, and for
// each process that it finds there a file of /proc or two.
void RemoveFilesOfTheDead(uid_t owner);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_BASE_SHARED_FILES_H_
