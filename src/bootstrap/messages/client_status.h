// What the clients of this process have done and have. A reading: the counts only grow, the rest is
// of the moment.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_CLIENT_STATUS_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_CLIENT_STATUS_H_

#include <cstdint>
#include <map>
#include <string>

#include "src/bootstrap/messages/worker_status.h"

namespace invoker::bootstrap {

struct ClientStatus {
  struct Fabric {
    uint64_t sessions = 0;     // open
    uint64_t outstanding = 0;  // calls that somebody waits for
  };

  FunctionTable functions;                // calls of sessions: a call that is tried again is two
  std::map<std::string, Fabric> fabrics;  // by provider; those that have had a session
  std::map<std::string, uint64_t> drops;  // responses that led to nothing, by reason
  uint64_t sessions = 0;                  // opened
  uint64_t retries = 0;                   // calls of groups that were tried again
  uint64_t registered_bytes = 0;          // with fabrics, by this process
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_CLIENT_STATUS_H_
