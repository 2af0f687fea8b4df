// A number that two processes share if and only if they run on the same host.

#ifndef INVOKER_SRC_INVOKE_FABRICS_HOST_IDENTITY_H_
#define INVOKER_SRC_INVOKE_FABRICS_HOST_IDENTITY_H_

#include <cstdint>

namespace invoker {

// A hash of the kernel's boot id and of the mount of /dev/shm, so that two containers on one
// machine that cannot share memory count as two hosts. Any thread.
uint64_t HostIdentity();

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FABRICS_HOST_IDENTITY_H_
