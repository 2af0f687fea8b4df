// The command that runs an executor inside of bubblewrap (bwrap).

#ifndef INVOKER_SRC_ISOLATION_SANDBOX_H_
#define INVOKER_SRC_ISOLATION_SANDBOX_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace invoker {

// What the fabrics that an executor serves need of the machine.
struct SandboxNeeds {
  bool network = false;        // some fabric reaches other hosts
  bool shared_memory = false;  // some fabric's peers are on this host
};

// Runs `command` with the file system read-only, a /tmp of its own, and no more of the machine than
// that. Process ids are the machine's: peers on this host know each other by them.
std::vector<std::string> SandboxCommand(const SandboxNeeds& needs,
                                        const std::vector<std::string>& command);

// Tries it. FAILED_PRECONDITION says what is missing here.
absl::Status CheckSandbox();

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SANDBOX_H_
