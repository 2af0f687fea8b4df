// Completion queues and channels.

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tests/efa_device/verbs_objects.h"

namespace efa_device {
namespace {

// Flags of efadv_create_cq; older headers lack the second.
constexpr uint64_t kWithSgid = 1 << 0;
constexpr uint64_t kWithIsUnsolicited = 1 << 1;

int Take(ibv_cq_ex* verbs) {
  Cq* queue = From(verbs);
  if (!queue->queue->Pop(&queue->current)) return ENOENT;
  verbs->wr_id = queue->current.id;
  verbs->status = ToVerbs(queue->current.status);
  return 0;
}

int StartPoll(ibv_cq_ex* verbs, ibv_poll_cq_attr* attributes) {
  if (attributes->comp_mask != 0) return EINVAL;
  From(verbs)->poll_lock.lock();
  const int error = Take(verbs);
  if (error != 0) {
    From(verbs)->poll_lock.unlock();
    // A program that polls without pause would keep the card's thread from its processor.
    sched_yield();
  }
  return error;
}

void EndPoll(ibv_cq_ex* verbs) { From(verbs)->poll_lock.unlock(); }

ibv_wc_opcode ReadOpcode(ibv_cq_ex* queue) { return From(queue)->current.opcode; }
uint32_t ReadVendorError(ibv_cq_ex* queue) {
  return static_cast<uint32_t>(From(queue)->current.status);
}
uint32_t ReadByteLength(ibv_cq_ex* queue) { return From(queue)->current.bytes; }
__be32 ReadImmediate(ibv_cq_ex* queue) { return From(queue)->current.immediate; }
uint32_t ReadQpn(ibv_cq_ex* queue) { return From(queue)->current.qpn; }
uint32_t ReadSourceQpn(ibv_cq_ex* queue) { return From(queue)->current.source_qpn; }
unsigned int ReadFlags(ibv_cq_ex* queue) {
  return From(queue)->current.has_immediate ? IBV_WC_WITH_IMM : 0;
}
// The card reports the sender's address handle as its LID.
uint32_t ReadSourceLid(ibv_cq_ex* queue) { return From(queue)->current.address_handle; }
uint8_t ReadNothing(ibv_cq_ex*) { return 0; }

Cq* FromEfa(efadv_cq* efa) {
  return reinterpret_cast<Cq*>(reinterpret_cast<char*>(efa) - offsetof(Cq, efa));
}

// Only a sender without an address handle is known by its GID.
int ReadSourceGid(efadv_cq* efa, ibv_gid* gid) {
  const Completion& completion = FromEfa(efa)->current;
  if (completion.address_handle != AddressHandles::kUnknown) return -ENOENT;
  memcpy(gid->raw, completion.source_gid.data(), sizeof(gid->raw));
  return 0;
}

bool IsUnsolicited(efadv_cq* efa) { return FromEfa(efa)->current.unsolicited; }

Cq* Create(ibv_context* context, uint32_t entries, void* user_context, ibv_comp_channel* channel,
           uint32_t vector) {
  if (entries == 0 || entries > CardOf(context).attributes().max_completion_entries ||
      vector >= static_cast<uint32_t>(context->num_comp_vectors)) {
    errno = EINVAL;
    return nullptr;
  }
  auto* queue = new Cq();
  queue->queue = std::make_unique<CompletionQueue>(
      entries, channel == nullptr ? nullptr : &From(channel)->channel, queue);
  ibv_cq_ex& verbs = queue->verbs;
  verbs.context = context;
  verbs.channel = channel;
  verbs.cq_context = user_context;
  verbs.cqe = static_cast<int>(entries);
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);
  if (channel != nullptr) ++channel->refcnt;
  return queue;
}

ibv_cq_ex* CreateExtended(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  if (attributes->comp_mask != 0 ||
      (attributes->wc_flags & ~uint64_t{IBV_WC_STANDARD_FLAGS}) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  Cq* queue = Create(context, attributes->cqe, attributes->cq_context, attributes->channel,
                     attributes->comp_vector);
  if (queue == nullptr) return nullptr;
  ibv_cq_ex& verbs = queue->verbs;
  verbs.start_poll = StartPoll;
  verbs.next_poll = Take;
  verbs.end_poll = EndPoll;
  verbs.read_opcode = ReadOpcode;
  verbs.read_vendor_err = ReadVendorError;
  verbs.read_byte_len = ReadByteLength;
  verbs.read_imm_data = ReadImmediate;
  verbs.read_qp_num = ReadQpn;
  verbs.read_src_qp = ReadSourceQpn;
  verbs.read_wc_flags = ReadFlags;
  verbs.read_slid = ReadSourceLid;
  verbs.read_sl = ReadNothing;
  verbs.read_dlid_path_bits = ReadNothing;
  return &verbs;
}

int Poll(ibv_cq* verbs, int count, ibv_wc* entries) {
  Cq* queue = From(verbs);
  int taken = 0;
  Completion completion;
  while (taken < count && queue->queue->Pop(&completion)) {
    ibv_wc& entry = entries[taken++];
    entry = {};
    entry.wr_id = completion.id;
    entry.status = ToVerbs(completion.status);
    entry.vendor_err = static_cast<uint32_t>(completion.status);
    entry.opcode = completion.opcode;
    entry.byte_len = completion.bytes;
    entry.imm_data = completion.immediate;
    entry.wc_flags = completion.has_immediate ? IBV_WC_WITH_IMM : 0;
    entry.qp_num = completion.qpn;
    entry.src_qp = completion.source_qpn;
    entry.slid = completion.address_handle;
  }
  return taken;
}

int RequestNotification(ibv_cq* queue, int solicited_only) {
  if (solicited_only != 0) return EOPNOTSUPP;
  if (queue->channel == nullptr) return EINVAL;
  From(queue)->queue->Arm();
  return 0;
}

}  // namespace

void SetCompletionOperations(verbs_context* context) {
  context->create_cq_ex = CreateExtended;
  context->context.ops.poll_cq = Poll;
  context->context.ops.req_notify_cq = RequestNotification;
}

}  // namespace efa_device

using efa_device::CardOf;
using efa_device::Channel;
using efa_device::Cq;
using efa_device::From;

EFA_DEVICE_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user_context,
                                        ibv_comp_channel* channel, int vector) {
  Cq* queue = efa_device::Create(context, static_cast<uint32_t>(entries < 0 ? 0 : entries),
                                 user_context, channel, static_cast<uint32_t>(vector));
  return queue == nullptr ? nullptr : ibv_cq_ex_to_cq(&queue->verbs);
}

EFA_DEVICE_EXPORT ibv_cq_ex* efadv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attributes,
                                             efadv_cq_init_attr* efa, uint32_t size) {
  if (size < sizeof(*efa) || efa->comp_mask != 0) {
    errno = EINVAL;
    return nullptr;
  }
  const efa_device::Attributes& card = CardOf(context).attributes();
  uint64_t allowed = 0;
  if (card.has(efa_device::kCapCqWithSgid)) allowed |= efa_device::kWithSgid;
  if (card.has(efa_device::kCapUnsolicitedWriteReceive)) allowed |= efa_device::kWithIsUnsolicited;
  if ((efa->wc_flags & ~allowed) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_cq_ex* verbs = efa_device::CreateExtended(context, attributes);
  if (verbs == nullptr) return nullptr;
  Cq* queue = From(verbs);
  if ((efa->wc_flags & efa_device::kWithSgid) != 0) {
    queue->efa.read_sgid = efa_device::ReadSourceGid;
  }
  if ((efa->wc_flags & efa_device::kWithIsUnsolicited) != 0) {
    queue->efa.is_unsolicited = efa_device::IsUnsolicited;
  }
  return verbs;
}

EFA_DEVICE_EXPORT efadv_cq* efadv_cq_from_ibv_cq_ex(ibv_cq_ex* queue) {
  return reinterpret_cast<efadv_cq*>(&From(queue)->efa);
}

EFA_DEVICE_EXPORT int ibv_destroy_cq(ibv_cq* verbs) {
  Cq* queue = From(verbs);
  if (queue->users > 0) return EBUSY;
  if (verbs->channel != nullptr) --verbs->channel->refcnt;
  pthread_mutex_destroy(&verbs->mutex);
  pthread_cond_destroy(&verbs->cond);
  delete queue;
  return 0;
}

EFA_DEVICE_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* channel = new Channel();
  if (channel->channel.fd() < 0) {
    delete channel;
    return nullptr;
  }
  channel->verbs.context = context;
  channel->verbs.fd = channel->channel.fd();
  return &channel->verbs;
}

EFA_DEVICE_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (channel->refcnt > 0) return EBUSY;
  delete From(channel);
  return 0;
}

EFA_DEVICE_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** context) {
  void* owner;
  if (!From(channel)->channel.Next(&owner)) return -1;
  *queue = ibv_cq_ex_to_cq(&static_cast<Cq*>(owner)->verbs);
  *context = (*queue)->cq_context;
  return 0;
}

// An event's queue may be destroyed here before the event is acknowledged.
EFA_DEVICE_EXPORT void ibv_ack_cq_events(ibv_cq*, unsigned int) {}
