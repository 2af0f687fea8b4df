// The objects that libibverbs' users get: its public structures, each followed by what is ours.

#ifndef INVOKER_TESTS_EFA_DEVICE_VERBS_OBJECTS_H_
#define INVOKER_TESTS_EFA_DEVICE_VERBS_OBJECTS_H_

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/efa_device/card.h"
#include "tests/efa_device/completion_queue.h"
#include "tests/efa_device/queue_pair.h"

// Only these functions leave the library.
#define EFA_DEVICE_EXPORT extern "C" __attribute__((visibility("default")))

namespace efa_device {

// A newer rdma-core's structures may be longer than those of the headers here. Its users then see
// null pointers behind ours.
constexpr size_t kNewerMembers = 128;

struct Context {
  verbs_context verbs;  // its last member is the ibv_context
  std::unique_ptr<Card> card;
};

struct ProtectionDomain {
  ibv_pd verbs;
  std::atomic<int> users{0};
};

struct MemoryRegion {
  ibv_mr verbs;
};

struct AddressHandle {
  ibv_ah verbs;
  Gid gid;
  uint16_t number;
};

struct Channel {
  ibv_comp_channel verbs;
  CompletionChannel channel;
};

// efadv_cq as newer rdma-cores have it; older headers lack the last member.
struct EfaCompletionQueue {
  uint64_t comp_mask;
  int (*read_sgid)(efadv_cq* queue, ibv_gid* gid);
  bool (*is_unsolicited)(efadv_cq* queue);
};
static_assert(sizeof(EfaCompletionQueue) >= sizeof(efadv_cq), "no header has more members");

struct Cq {
  ibv_cq_ex verbs;
  char newer_members[kNewerMembers];
  EfaCompletionQueue efa;
  std::unique_ptr<CompletionQueue> queue;
  std::atomic<int> users{0};
  std::mutex poll_lock;  // from start_poll to end_poll
  Completion current;
};

struct Qp {
  ibv_qp_ex verbs;
  char newer_members[kNewerMembers];
  QueuePair* pair;
  ProtectionDomain* domain;
  bool signal_all;
  uint64_t send_operations;
  std::mutex batch_lock;  // from wr_start to wr_complete or wr_abort
  std::vector<WorkRequest> batch;
  int batch_error;
};

inline Context* From(ibv_context* context) {
  return reinterpret_cast<Context*>(reinterpret_cast<char*>(context) -
                                    offsetof(verbs_context, context));
}
inline ProtectionDomain* From(ibv_pd* domain) {
  return reinterpret_cast<ProtectionDomain*>(domain);
}
inline AddressHandle* From(ibv_ah* handle) { return reinterpret_cast<AddressHandle*>(handle); }
inline Channel* From(ibv_comp_channel* channel) { return reinterpret_cast<Channel*>(channel); }
inline Cq* From(ibv_cq* queue) { return reinterpret_cast<Cq*>(queue); }
inline Cq* From(ibv_cq_ex* queue) { return reinterpret_cast<Cq*>(queue); }
inline Qp* From(ibv_qp* pair) { return reinterpret_cast<Qp*>(pair); }
inline Qp* From(ibv_qp_ex* pair) { return reinterpret_cast<Qp*>(pair); }
inline Card& CardOf(ibv_context* context) { return *From(context)->card; }

// Each sets the function pointers that its file implements.
void SetCompletionOperations(verbs_context* context);
void SetQueuePairOperations(verbs_context* context);

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_VERBS_OBJECTS_H_
