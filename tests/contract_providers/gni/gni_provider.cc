// libgni-fi.so: the contract of the gni provider, read from libfabric 1.17.0's prov/gni (the last
// release with it is 1.20; 1.21 removed it). Files are named below prov/gni.

// rdma/providers/fi_prov.h leaves it to the provider to say what this is.
#define EXTERNALLY_VISIBLE externally_visible

#include <cstdint>

#include "tests/contract_providers/core/endpoint.h"
#include "tests/contract_providers/core/provider.h"

namespace contract {
namespace {

// include/gnix.h: GNIX_EP_PRIMARY_CAPS, to be asked for.
constexpr uint64_t kPrimary = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_DIRECTED_RECV | FI_READ |
                              FI_NAMED_RX_CTX | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ |
                              FI_REMOTE_WRITE;
// GNIX_EP_SEC_CAPS, told in any case.
constexpr uint64_t kSecondary =
    FI_MULTI_RECV | FI_TRIGGER | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM;
// GNIX_EP_SEC_CAPS_OH, only if asked for.
constexpr uint64_t kOnRequest = FI_SOURCE | FI_RMA_EVENT | FI_SOURCE_ERR;

// include/gnix.h: GNIX_EP_OP_FLAGS.
constexpr uint64_t kOpFlags = FI_INJECT | FI_MULTI_RECV | FI_COMPLETION | FI_INJECT_COMPLETE |
                              FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

// src/gnix_atomic.c: the tables __gnix_amo_cmds, __gnix_fetch_amo_cmds and __gnix_cmp_amo_cmds.
// One element per operation (src/gnix_ep.c, gnix_ep_atomic_valid).
size_t AtomicCount(AtomicKind kind, enum fi_datatype datatype, enum fi_op op) {
  const bool is_signed = datatype == FI_INT32 || datatype == FI_INT64;
  const bool is_unsigned = datatype == FI_UINT32 || datatype == FI_UINT64;
  const bool is_float = datatype == FI_FLOAT || datatype == FI_DOUBLE;
  if (!is_signed && !is_unsigned && !is_float) return 0;
  if (kind == AtomicKind::kCompare) {
    // FI_MSWAP of floating point is in the table too; no implementation of it is known here.
    return op == FI_CSWAP || (op == FI_MSWAP && !is_float) ? 1 : 0;
  }
  switch (op) {
    case FI_MIN:
    case FI_MAX:
      return is_unsigned ? 0 : 1;
    case FI_SUM:
      // "DP addition is broken" there.
      return datatype == FI_DOUBLE ? 0 : 1;
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
      return is_float ? 0 : 1;
    case FI_ATOMIC_WRITE:
      return 1;
    case FI_ATOMIC_READ:
      return kind == AtomicKind::kFetch ? 1 : 0;
    default:
      return 0;
  }
}

Contract Gni() {
  Contract contract = {};
  contract.fabric_name = "gni";                   // src/gnix_fabric.c gnix_fab_name
  contract.domain_name = "/sys/class/gni/kgni0";  // gnix_dom_name
  contract.family = AddressFamily::kGni;
  contract.address_format = FI_ADDR_GNI;
  contract.address_bytes = 48;  // include/gnix.h struct gnix_ep_name
  contract.identity_bytes = 48;
  contract.protocol = FI_PROTO_GNI;
  contract.caps = kPrimary | kSecondary | kOnRequest;
  contract.caps_silent = kSecondary;
  contract.domain_caps = FI_REMOTE_COMM;  // GNIX_DOM_CAPS
  contract.tx_op_flags = kOpFlags;
  contract.rx_op_flags = kOpFlags;
  contract.message_order = FI_ORDER_SAS;          // src/gnix_fabric.c _gnix_allocinfo
  contract.order_rule = OrderRule::kIgnoreHints;  // _gnix_ep_getinfo does not look at it
  contract.memory_rule = MemoryRule::kBasicElseMmuNotify;
  contract.progress_rule = ProgressRule::kAsAsked;
  contract.threading = FI_THREAD_SAFE;
  // src/gnix_cq.c verify_cq_attr: NONE, UNSPEC and SET; src/gnix_fabric.c gnix_fabric_trywait.
  contract.wait = {true, false, -FI_EINVAL, false};
  contract.key_bytes = 8;
  contract.cq_data_bytes = 8;
  contract.inject_bytes = 64;  // GNIX_INJECT_SIZE
  contract.tx_size = 500;      // GNIX_TX_SIZE_DEFAULT
  contract.rx_size = 500;
  contract.iov_limit = 8;                                // GNIX_MAX_MSG_IOV_LIMIT
  contract.rma_iov_limit = 1;                            // GNIX_MAX_RMA_IOV_LIMIT
  contract.rma_local_iov_limit = 1;                      // src/gnix_ep.c gnix_ep_writemsg
  contract.max_message_bytes = (uint64_t{1} << 32) - 1;  // GNIX_MAX_MSG_SIZE
  contract.max_rma_bytes = contract.max_message_bytes;
  contract.minimum_cq_entries = 1;
  // src/gnix_rma.c, where rma_data_hdr.user_flags is set.
  contract.immediate_flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  contract.readable_access = FI_REMOTE_READ;
  // include/gnix_util.h GNIX_ALLOW_FI_REMOTE_CQ_DATA, at the initiator and at the target.
  contract.immediate_needs_rma_event = true;
  contract.cancel_served = true;
  contract.atomic_count = AtomicCount;
  contract.atomics_need_alignment = true;  // src/gnix_atomic.c _gnix_atomic
  return contract;
}

std::vector<const Contract*> Contracts() {
  static const Contract gni = Gni();
  return {&gni};
}

constexpr ProviderDescription kProvider = {"gni", FI_VERSION(1, 1), Contracts};

}  // namespace
}  // namespace contract

extern "C" FI_EXT_INI { return contract::MakeProvider(contract::kProvider); }
