// The id of an open lease, and its tenant.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_LEASE_IDENTITY_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_LEASE_IDENTITY_H_

#include <cstdint>
#include <string>

namespace invoker::bootstrap {

struct LeaseIdentity {
  uint64_t lease = 0;  // its id: a secret
  std::string tenant;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_LEASE_IDENTITY_H_
