// How a work request ended: the codes of the card's completion entries, which libfabric reports as
// prov_errno.

#ifndef INVOKER_TESTS_EFA_DEVICE_STATUS_H_
#define INVOKER_TESTS_EFA_DEVICE_STATUS_H_

#include <infiniband/verbs.h>

#include <cstdint>

namespace efa_device {

enum class Status : uint8_t {
  kOk = 0,
  kFlushed = 1,  // the queue pair went to the error state
  kInternalError = 2,
  kUnsupportedOperation = 3,
  kInvalidAddressHandle = 4,
  kInvalidLocalKey = 5,   // no such lkey, or the buffer is outside of it
  kBadLocalLength = 6,    // longer than the MTU, or than a read or write may be
  kBadRemoteAddress = 7,  // no such rkey, outside of it, or it does not grant the access
  kRemoteAbort = 8,
  kBadDestinationQueuePair = 9,  // none there with this number and qkey
  kReceiverNotReady = 10,        // no receive was posted, after all retries
  kBadRemoteLength = 11,         // the posted receive is too short
  kBadRemoteStatus = 12,
  kUnresponsiveRemote = 13,  // nobody answers at this GID
};

// The verbs status of a code.
ibv_wc_status ToVerbs(Status status);

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_STATUS_H_
