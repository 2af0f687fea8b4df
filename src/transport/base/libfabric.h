// The libfabric headers, and every difference between the API versions we build against (1.17
// and 2.x).
//
// Include this instead of <rdma/...>. What differs so far: 2.x deprecates FI_ORDER_NONE,
// FI_MR_BASIC and FI_MR_UNSPEC and removes FI_BUFFERED_RECV; none of them is used anywhere, and
// zero stands for "nothing asked".

#ifndef INVOKER_SRC_TRANSPORT_BASE_LIBFABRIC_H_
#define INVOKER_SRC_TRANSPORT_BASE_LIBFABRIC_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <memory>

namespace invoker::transport {

// The API we are written to. A 2.x library serves it as well: asking for more would refuse 1.17.
inline constexpr uint32_t kApiVersion = FI_VERSION(1, 17);

// libfabric 2.x names one progress model per domain; 1.x has one for data and one for control. The
// field of 1.x is a union member of the same meaning in 2.x.
inline enum fi_progress DataProgress(const fi_domain_attr& domain) { return domain.data_progress; }

// The one deleter for every libfabric object. fi_close can fail with -FI_EBUSY only if a child
// object is still open, which the declaration order of the owners rules out.
struct FidDeleter {
  template <typename Fid>
  void operator()(Fid* object) const {
    fi_close(&object->fid);
  }
};

template <typename Fid>
using FidPtr = std::unique_ptr<Fid, FidDeleter>;

struct InfoDeleter {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};

using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_BASE_LIBFABRIC_H_
