// libefa-fi.so: the contracts of the efa provider, read from libfabric's source. "1.17.0:" and
// "2.6.0:" name the release and the file below prov/efa/src.
//
// Numbers that a device reports (inject and queue sizes) are knobs: README.md.

// rdma/providers/fi_prov.h leaves it to the provider to say what this is.
#define EXTERNALLY_VISIBLE externally_visible

#include <cstdint>

#include "tests/contract_providers/core/config.h"
#include "tests/contract_providers/core/endpoint.h"
#include "tests/contract_providers/core/provider.h"
#include "tests/contract_providers/core/wire.h"

namespace contract {
namespace {

// 1.17.0:efa_prov_info.c, efa_prov_info_alloc_for_rxr; 2.6.0:efa_prov_info.c,
// efa_prov_info_alloc_for_rdm: the same set, and no FI_RMA_EVENT.
constexpr uint64_t kDirections =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kRdmSecondary =
    FI_SOURCE | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kRdmCaps = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | kDirections | kRdmSecondary;
// FI_DIRECTED_RECV is primary (rdma/fabric.h's FI_PRIMARY_CAPS), so it is told only if asked for.
constexpr uint64_t kRdmSilent = FI_SOURCE | FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kDirectCaps =
    FI_MSG | FI_RMA | kDirections | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM;

// Like above: sends among themselves, and atomics among themselves. Nothing else.
constexpr uint64_t kRdmOrder = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
                               FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

constexpr uint64_t kTxOpFlags =
    FI_INJECT | FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_INJECT_COMPLETE;
constexpr uint64_t kRxOpFlags = FI_COMPLETION | FI_MULTI_RECV;

// 1.17.0:rxr/rxr_env.c: shm_max_medium_size 4096; efa_prov_info.c takes the longest packet header
// off. 2.6.0:efa.h: SHM_MAX_INJECT_SIZE 4096, nothing taken off.
constexpr size_t kFirstInject = 3928;
constexpr size_t kSecondInject = 4096;
// 2.6.0:efa_prov_info.c: the device's inline_buf_size.
constexpr size_t kDirectInject = 32;
// The device's max_sq_wr and max_rq_wr, rounded down to a power of two.
constexpr size_t kTxSize = 256;
constexpr size_t kRxSize = 512;
// 1.17.0:rxr/rxr_op_entry.h RXR_IOV_LIMIT; 2.6.0:rdm/efa_rdm_ope.h EFA_RDM_IOV_LIMIT.
constexpr size_t kRdmIov = 4;
// 2.6.0:efa_prov_info.c: the device's max_sq_sge.
constexpr size_t kDirectIov = 2;
// 2.6.0:efa_prov_info.c: the device's MTU for messages (man fi_efa: about 8 KiB), max_rdma_size
// for the rest.
constexpr uint64_t kDirectMessage = 8760;
constexpr uint64_t kDirectRma = 1 << 30;
// 1.17.0:rxr/rxr.h RXR_DEF_CQ_SIZE.
constexpr size_t kLeastCq = 8192;

// 1.17.0:rxr/rxr_atomic.c rxr_query_atomic, over ofi_atomic_valid: every operation that libfabric
// has an implementation for, software on the target. The count is what fits a packet, which is the
// device's MTU there and ours here.
size_t AtomicCount(AtomicKind kind, enum fi_datatype datatype, enum fi_op op) {
  if (!AtomicKnown(kind, datatype, op)) return 0;
  const size_t room = kind == AtomicKind::kCompare ? kPacketPayload / 2 : kPacketPayload;
  return room / AtomicSize(datatype);
}

// 2.6.0:efa_prov_info.c: efa-direct has no FI_ATOMIC.
size_t NoAtomics(AtomicKind, enum fi_datatype, enum fi_op) { return 0; }

Contract FirstGeneration() {
  Contract contract = {};
  contract.fabric_name = "efa";           // 1.17.0:efa_prov_info.c EFA_FABRIC_NAME
  contract.domain_name = "rdmap0s6-rdm";  // device name and efa_domain_name_suffix
  contract.family = AddressFamily::kEfa;
  contract.address_format = FI_ADDR_EFA;
  contract.address_bytes = 32;   // 1.17.0:rxr/rdm_proto_v4.h EFA_EP_ADDR_LEN
  contract.identity_bytes = 24;  // GID, QPN, QKEY; the rest is a pointer
  contract.protocol = FI_PROTO_EFA;
  contract.protocol_version = 4;  // 1.17.0:rxr/rdm_proto_v4.h RXR_PROTOCOL_VERSION
  contract.caps = kRdmCaps;
  contract.caps_silent = kRdmSilent;
  contract.domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;  // EFA_DOMAIN_CAPS
  contract.tx_op_flags = kTxOpFlags;
  contract.rx_op_flags = kRxOpFlags;
  contract.message_order = kRdmOrder;
  contract.order_rule = OrderRule::kRefuseMore;              // ofi_check_tx_attr
  contract.memory_rule = MemoryRule::kBasic;                 // OFI_MR_BASIC_MAP, LOCAL if offered
  contract.progress_rule = ProgressRule::kManualIfRmaAsked;  // 1.17.0:efa_user_info.c
  contract.threading = FI_THREAD_SAFE;
  // 1.17.0:rxr/rxr_cq.c rxr_cq_open: anything but FI_WAIT_NONE.
  contract.wait = {false, false, -FI_ENOSYS, true};
  contract.key_bytes = 4;      // sizeof ibv_sge.lkey
  contract.cq_data_bytes = 8;  // 1.17.0:rxr/rxr.h RXR_CQ_DATA_SIZE
  contract.inject_bytes = NumberFromEnvironment("CONTRACT_EFA_INJECT", kFirstInject);
  contract.tx_size = NumberFromEnvironment("CONTRACT_EFA_TX_SIZE", kTxSize);
  contract.rx_size = NumberFromEnvironment("CONTRACT_EFA_RX_SIZE", kRxSize);
  contract.iov_limit = kRdmIov;
  contract.rma_iov_limit = 1;  // efa_rdm_tx_attr
  contract.rma_local_iov_limit = kRdmIov;
  contract.max_message_bytes = UINT64_MAX;
  contract.max_rma_bytes = UINT64_MAX;
  contract.minimum_cq_entries = kLeastCq;
  // 1.17.0:rxr/rxr_ep.c rxr_ep_alloc_rx_entry sets FI_RMA and FI_REMOTE_WRITE, then
  // 1.17.0:rxr/rxr_pkt_type_req.c adds FI_WRITE (rxr_pkt_proc_eager_rtw and the longer protocols).
  contract.immediate_flags = FI_RMA | FI_WRITE | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  // 1.17.0:efa_mr.c efa_mr_reg_impl: IBV_ACCESS_REMOTE_READ in any case, if the card reads.
  contract.readable_access = ~uint64_t{0};
  contract.posted_receives_hold_region = true;
  contract.av_shares_duplicates = true;  // 1.17.0:efa_av.c efa_av_insert_one
  contract.one_endpoint_per_av = true;   // 1.17.0:rxr/rxr_ep.c rxr_ep_bind
  // efa_rdm_peer_clear in 1.17.0:efa_av.c forgets the numbers, which rxr_cq_reorder_msg compares,
  // and the handshake, which rxr_pkt_post_handshake_or_queue sends to a peer once.
  contract.peers_meet_once = true;
  contract.cancel_served = true;
  contract.atomic_count = AtomicCount;
  return contract;
}

// What changed: 4 bytes of data, another inject size, order by what was asked for, blocking reads,
// the flags of an immediate, and which regions can be read.
Contract SecondGeneration() {
  Contract contract = FirstGeneration();
  contract.order_rule = OrderRule::kMaskByHints;   // 2.6.0:efa_user_info.c
  contract.progress_rule = ProgressRule::kManual;  // 2.6.0:efa_prov_info.c
  contract.cq_data_bytes = 4;                      // 2.6.0:efa_cq.h EFA_CQ_DATA_SIZE
  contract.inject_bytes = NumberFromEnvironment("CONTRACT_EFA_INJECT", kSecondInject);
  // 2.6.0:rdm/efa_rdm_cq.c efa_rdm_cq_configure_wait.
  const bool shm_transfer = NumberFromEnvironment("FI_EFA_ENABLE_SHM_TRANSFER", 1) != 0;
  contract.wait = {true, !shm_transfer, -FI_ENOSYS, true};
  // 2.6.0:rdm/efa_rdm_cq.c efa_rdm_cq_process_wc and, by messages, rdm/efa_rdm_ep_utils.c
  // efa_rdm_ep_alloc_rxe; efa-direct: efa_cq.c efa_cq_opcode_to_fi_flags.
  contract.immediate_flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  // 2.6.0:efa_mr.c efa_mr_ofi_to_ibv_access, on a card that reads and writes.
  contract.readable_access = FI_REMOTE_READ | FI_SEND;
  contract.one_endpoint_per_av = false;
  return contract;
}

// The second fabric of 2.x: little more than the device. 2.6.0:efa_prov_info.c,
// docs/efa_fabric_comparison.md and man/fi_efa.7.md.
Contract Direct() {
  Contract contract = SecondGeneration();
  contract.fabric_name = "efa-direct";
  contract.caps = kDirectCaps;
  contract.caps_silent = FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM;
  contract.mode_required = FI_CONTEXT2;
  contract.protocol_version = 1;
  contract.message_order = 0;  // EFA_MSG_ORDER
  contract.memory_rule = MemoryRule::kBasicAndLocal;
  contract.progress_rule = ProgressRule::kAuto;
  contract.wait = {true, true, -FI_ENOSYS, true};
  contract.inject_bytes = kDirectInject;
  contract.iov_limit = kDirectIov;
  contract.rma_local_iov_limit = kDirectIov;
  contract.max_message_bytes = kDirectMessage;
  contract.max_rma_bytes = kDirectRma;
  contract.target_must_know_initiator = true;  // man/fi_efa.7.md, RMA operations
  contract.peers_meet_once = false;            // no protocol above the card
  contract.descriptor_needed = true;
  contract.cancel_served = false;  // man/fi_efa.7.md, fi_cancel
  contract.atomic_count = NoAtomics;
  return contract;
}

std::vector<const Contract*> Contracts() {
  // Filled once: an open fabric keeps a pointer.
  static const Contract first = FirstGeneration();
  static const Contract second = SecondGeneration();
  static const Contract direct = Direct();
  if (NumberFromEnvironment("CONTRACT_EFA_GENERATION", 1) == 2) {
    // 2.6.0:efa_prov.c tells efa-direct first.
    return {&direct, &second};
  }
  return {&first};
}

// When two providers have one name, libfabric takes the one with the higher version, and it may
// have an efa of its own.
constexpr ProviderDescription kProvider = {"efa", FI_VERSION(9999, 0), Contracts};

}  // namespace
}  // namespace contract

extern "C" FI_EXT_INI { return contract::MakeProvider(contract::kProvider); }
