// A write that is told to its writer only when its bytes are placed.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_DELIVERY_WRITE_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_DELIVERY_WRITE_H_

#include <rdma/fabric.h>
#include <rdma/fi_rma.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace contract {

// Posts one write with a completion of its own, and returns what fi_writemsg does. `descriptor` is
// that of the source's registration.
inline ssize_t DeliveryWrite(fid_ep* endpoint, const void* source, void* descriptor, size_t length,
                             fi_addr_t to, uint64_t address, uint64_t key, void* context) {
  iovec local = {const_cast<void*>(source), length};
  fi_rma_iov remote = {address, length, key};
  fi_msg_rma message = {};
  message.msg_iov = &local;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = to;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = context;
  return fi_writemsg(endpoint, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION);
}

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_DELIVERY_WRITE_H_
