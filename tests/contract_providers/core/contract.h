// What a provider promises and what it leaves open, as data: one Contract per fabric and
// generation. The core reads nothing but this table, and names no provider.
//
// Every value in a table is read from libfabric's source; the tables say where. Nothing here was
// measured on a device.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONTRACT_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONTRACT_H_

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace contract {

// How an endpoint address is laid out (address.h).
enum class AddressFamily : uint8_t { kEfa, kGni };

// How fi_getinfo answers to the message order that hints ask for.
enum class OrderRule : uint8_t {
  kRefuseMore,   // -FI_ENODATA if hints ask for an order that is not kept; the whole order is told
  kMaskByHints,  // like kRefuseMore, but only what was asked for is told
  kIgnoreHints,  // hints are not looked at: what is told is what is kept
};

// How fi_getinfo answers to mr_mode.
enum class MemoryRule : uint8_t {
  kBasic,               // VIRT_ADDR, ALLOCATED, PROV_KEY demanded; LOCAL told if offered
  kBasicAndLocal,       // LOCAL demanded as well
  kBasicElseMmuNotify,  // MMU_NOTIFY demanded unless BASIC or ALLOCATED is offered
};

enum class ProgressRule : uint8_t {
  kAuto,              // automatic, whatever is asked for
  kManual,            // manual, whatever is asked for
  kManualIfRmaAsked,  // automatic unless hints ask for FI_RMA
  kAsAsked,           // what hints ask for, automatic if nothing
};

// Which wait objects fi_cq_open takes. A refused one costs `refused_wait_error`.
struct WaitRule {
  bool unspec;
  bool fd;
  int refused_wait_error;  // negative fi_errno
  bool has_trywait;        // else fi_trywait is -FI_ENOSYS
};

enum class AtomicKind : uint8_t { kWrite, kFetch, kCompare };

struct Contract {
  const char* fabric_name;
  const char* domain_name;
  AddressFamily family;
  uint32_t address_format;
  size_t address_bytes;
  // The leading bytes that identify an endpoint; what follows is the provider's own.
  size_t identity_bytes;
  uint32_t protocol;
  uint32_t protocol_version;

  uint64_t caps;         // everything that may be asked for; more is -FI_ENODATA
  uint64_t caps_silent;  // told although not asked for
  uint64_t domain_caps;
  uint64_t mode_required;  // -FI_ENODATA unless hints offer it
  uint64_t tx_op_flags;    // default tx_attr->op_flags that are told
  uint64_t rx_op_flags;

  uint64_t message_order;
  OrderRule order_rule;
  MemoryRule memory_rule;
  ProgressRule progress_rule;
  enum fi_threading threading;
  WaitRule wait;

  size_t key_bytes;
  size_t cq_data_bytes;
  size_t inject_bytes;
  size_t tx_size;
  size_t rx_size;
  size_t iov_limit;
  size_t rma_iov_limit;
  // The most for a vectored RMA call; a longer one is -FI_EINVAL.
  size_t rma_local_iov_limit;
  uint64_t max_message_bytes;  // the most for FI_MSG
  uint64_t max_rma_bytes;
  size_t minimum_cq_entries;  // a smaller request is raised to this

  // Flags of the entry that a write with immediate leaves at its target.
  uint64_t immediate_flags;
  // FI_REMOTE_CQ_DATA of a write is dropped without a word unless both endpoints were opened with
  // FI_RMA_EVENT.
  bool immediate_needs_rma_event;
  // A region's key lets peers read it if the region was registered for any of these.
  uint64_t readable_access;
  // A write from an endpoint that the target has not inserted fails.
  bool target_must_know_initiator;
  // Closing a region under posted receives fails with -FI_EBUSY.
  bool posted_receives_hold_region;
  // fi_av_insert of an address that is there already tells the same fi_addr_t.
  bool av_shares_duplicates;
  bool one_endpoint_per_av;
  // Two endpoints greet each other once, and number their messages from then on. An endpoint that
  // removes a peer forgets both. After it has inserted the peer again, neither hears the other's
  // messages, and operations that need a greeting (writes, reads, FI_DELIVERY_COMPLETE) are
  // refused.
  bool peers_meet_once;
  // Every local buffer longer than the inject size needs a descriptor.
  bool descriptor_needed;
  bool cancel_served;

  // Whether the combination is granted, and how many elements one operation may have. 0 means not
  // granted.
  size_t (*atomic_count)(AtomicKind kind, enum fi_datatype datatype, enum fi_op op);
  // Refuse a remote address that is not aligned to the datatype.
  bool atomics_need_alignment;
};

// One provider library: the name that fi_getinfo matches, and its fabrics in the order in which
// they are told. The contracts are looked up at every fi_getinfo, since knobs in the environment
// choose among them.
struct ProviderDescription {
  const char* name;
  uint32_t version;
  std::vector<const Contract*> (*contracts)();
};

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_CONTRACT_H_
