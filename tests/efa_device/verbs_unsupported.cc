// The operations that the card refuses. These functions stand before libibverbs' own, which would
// look for a kernel driver behind our objects. Each returns the error that the real library
// documents.

#include <cerrno>

#include "tests/efa_device/verbs_objects.h"

namespace {

template <typename Object>
Object* None() {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

EFA_DEVICE_EXPORT ibv_srq* ibv_create_srq(ibv_pd*, ibv_srq_init_attr*) { return None<ibv_srq>(); }
EFA_DEVICE_EXPORT int ibv_modify_srq(ibv_srq*, ibv_srq_attr*, int) { return EOPNOTSUPP; }
EFA_DEVICE_EXPORT int ibv_query_srq(ibv_srq*, ibv_srq_attr*) { return EOPNOTSUPP; }
EFA_DEVICE_EXPORT int ibv_destroy_srq(ibv_srq*) { return EOPNOTSUPP; }
EFA_DEVICE_EXPORT int ibv_resize_cq(ibv_cq*, int) { return EOPNOTSUPP; }
EFA_DEVICE_EXPORT int ibv_query_qp(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) {
  return EOPNOTSUPP;
}
EFA_DEVICE_EXPORT int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
EFA_DEVICE_EXPORT int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
EFA_DEVICE_EXPORT int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, size_t, int) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;
}
EFA_DEVICE_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, uint8_t) {
  return None<ibv_ah>();
}
EFA_DEVICE_EXPORT int ibv_init_ah_from_wc(ibv_context*, uint8_t, ibv_wc*, ibv_grh*, ibv_ah_attr*) {
  errno = EOPNOTSUPP;
  return -1;
}
EFA_DEVICE_EXPORT int ibv_get_async_event(ibv_context*, ibv_async_event*) {
  errno = EAGAIN;
  return -1;
}
EFA_DEVICE_EXPORT void ibv_ack_async_event(ibv_async_event*) {}

// rdma-core 58 and later: the card's queues themselves, to be driven without these functions.
struct efadv_wq_attr;
struct efadv_cq_attr;
EFA_DEVICE_EXPORT int efadv_query_qp_wqs(ibv_qp*, efadv_wq_attr*, efadv_wq_attr*, uint32_t) {
  return EOPNOTSUPP;
}
EFA_DEVICE_EXPORT int efadv_query_cq(ibv_cq*, efadv_cq_attr*, uint32_t) { return EOPNOTSUPP; }
