// The command that runs an executor inside of bubblewrap (bwrap).

#ifndef INVOKER_SRC_ISOLATION_SANDBOX_SANDBOX_H_
#define INVOKER_SRC_ISOLATION_SANDBOX_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace invoker {

// What the fabrics that an executor serves need of the machine.
struct SandboxNeeds {
  bool network = false;        // some fabric reaches other hosts
  bool shared_memory = false;  // some fabric's peers are on this host
};

// What files in an executor's own /tmp may take of memory, all together; those in a /dev/shm of its
// own as well. Nothing else of the file system can be written to, so files need no other limit.
inline constexpr uint64_t kSandboxFileBytes = 256 << 20;

// Runs `command` with the file system read-only, a /tmp of its own, and no more of the machine than
// that; where `needs` names no shared memory, a /dev/shm, System V objects and process numbers of
// its own as well: it sees, and can send signals to, no process but those that it starts. Elsewhere
// the numbers are the machine's, since peers on one host know each other by them.
std::vector<std::string> SandboxCommand(const SandboxNeeds& needs,
                                        const std::vector<std::string>& command);

// Tries it. FAILED_PRECONDITION says what is missing here.
absl::Status CheckSandbox();

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SANDBOX_SANDBOX_H_
