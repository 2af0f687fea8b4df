// Queue pairs: creation, states, and both ways to post work requests.

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "tests/efa_device/verbs_objects.h"

namespace efa_device {
namespace {

constexpr uint16_t kUnsolicitedWriteReceiveFlag = 1 << 0;

// efadv_qp_init_attr, with the members that newer rdma-cores have in place of reserved bytes.
struct EfaAttributes {
  uint64_t comp_mask;
  uint32_t driver_qp_type;
  uint16_t flags;
  uint8_t service_level;
  uint8_t reserved;
};
static_assert(sizeof(EfaAttributes) == sizeof(efadv_qp_init_attr), "the ABI has not changed");

// Extended work requests.

WorkRequest& Add(ibv_qp_ex* verbs, WorkRequest::Operation operation) {
  Qp* pair = From(verbs);
  pair->batch.emplace_back();
  WorkRequest& request = pair->batch.back();
  request.id = verbs->wr_id;
  request.operation = operation;
  // The card reports every request.
  if (!pair->signal_all && (verbs->wr_flags & IBV_SEND_SIGNALED) == 0) pair->batch_error = EINVAL;
  return request;
}

// Fails the batch if the queue pair was not created for `operation`.
void Require(ibv_qp_ex* verbs, uint64_t operation) {
  Qp* pair = From(verbs);
  if ((pair->send_operations & operation) == 0) pair->batch_error = EINVAL;
}

void WrStart(ibv_qp_ex* verbs) {
  Qp* pair = From(verbs);
  pair->batch_lock.lock();
  pair->batch.clear();
  pair->batch_error = 0;
}

int WrComplete(ibv_qp_ex* verbs) {
  Qp* pair = From(verbs);
  int error = pair->batch_error;
  if (error == 0) {
    std::lock_guard<std::mutex> guard(CardOf(verbs->qp_base.context).lock());
    error = pair->pair->PostSends(std::move(pair->batch));
  }
  pair->batch.clear();
  pair->batch_lock.unlock();
  return error;
}

void WrAbort(ibv_qp_ex* verbs) {
  From(verbs)->batch.clear();
  From(verbs)->batch_lock.unlock();
}

void WrSend(ibv_qp_ex* verbs) {
  Require(verbs, IBV_QP_EX_WITH_SEND);
  Add(verbs, WorkRequest::Operation::kSend);
}

void WrSendImmediate(ibv_qp_ex* verbs, __be32 immediate) {
  Require(verbs, IBV_QP_EX_WITH_SEND_WITH_IMM);
  WorkRequest& request = Add(verbs, WorkRequest::Operation::kSend);
  request.has_immediate = true;
  request.immediate = immediate;
}

WorkRequest& AddRdma(ibv_qp_ex* verbs, WorkRequest::Operation operation, uint32_t rkey,
                     uint64_t address) {
  WorkRequest& request = Add(verbs, operation);
  request.rkey = rkey;
  request.remote_address = address;
  return request;
}

void WrRead(ibv_qp_ex* verbs, uint32_t rkey, uint64_t address) {
  Require(verbs, IBV_QP_EX_WITH_RDMA_READ);
  AddRdma(verbs, WorkRequest::Operation::kRead, rkey, address);
}

void WrWrite(ibv_qp_ex* verbs, uint32_t rkey, uint64_t address) {
  Require(verbs, IBV_QP_EX_WITH_RDMA_WRITE);
  AddRdma(verbs, WorkRequest::Operation::kWrite, rkey, address);
}

void WrWriteImmediate(ibv_qp_ex* verbs, uint32_t rkey, uint64_t address, __be32 immediate) {
  Require(verbs, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
  WorkRequest& request = AddRdma(verbs, WorkRequest::Operation::kWrite, rkey, address);
  request.has_immediate = true;
  request.immediate = immediate;
}

// The setters change the request that was added last.

WorkRequest* Last(ibv_qp_ex* verbs) {
  Qp* pair = From(verbs);
  if (pair->batch.empty()) {
    pair->batch_error = EINVAL;
    return nullptr;
  }
  return &pair->batch.back();
}

void WrSetInlineList(ibv_qp_ex* verbs, size_t count, const ibv_data_buf* buffers) {
  WorkRequest* request = Last(verbs);
  if (request == nullptr) return;
  request->is_inline = true;
  for (size_t i = 0; i < count; ++i) {
    request->inline_data.append(static_cast<const char*>(buffers[i].addr), buffers[i].length);
  }
}

void WrSetInline(ibv_qp_ex* verbs, void* address, size_t length) {
  const ibv_data_buf buffer = {address, length};
  WrSetInlineList(verbs, 1, &buffer);
}

void WrSetSgeList(ibv_qp_ex* verbs, size_t count, const ibv_sge* buffers) {
  WorkRequest* request = Last(verbs);
  if (request != nullptr) request->buffers.assign(buffers, buffers + count);
}

void WrSetSge(ibv_qp_ex* verbs, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge buffer = {address, length, lkey};
  WrSetSgeList(verbs, 1, &buffer);
}

void WrSetAddress(ibv_qp_ex* verbs, ibv_ah* handle, uint32_t qpn, uint32_t qkey) {
  WorkRequest* request = Last(verbs);
  if (request == nullptr) return;
  request->peer = Peer{From(handle)->gid, qpn};
  request->qkey = qkey;
}

// Work requests of the first kind.

bool Convert(const Qp& pair, const ibv_send_wr& from, WorkRequest* to) {
  if (from.opcode != IBV_WR_SEND && from.opcode != IBV_WR_SEND_WITH_IMM) return false;
  if (!pair.signal_all && (from.send_flags & IBV_SEND_SIGNALED) == 0) return false;
  to->id = from.wr_id;
  to->has_immediate = from.opcode == IBV_WR_SEND_WITH_IMM;
  if (to->has_immediate) to->immediate = from.imm_data;
  to->peer = Peer{From(from.wr.ud.ah)->gid, from.wr.ud.remote_qpn};
  to->qkey = from.wr.ud.remote_qkey;
  if ((from.send_flags & IBV_SEND_INLINE) == 0) {
    to->buffers.assign(from.sg_list, from.sg_list + from.num_sge);
    return true;
  }
  to->is_inline = true;
  for (int i = 0; i < from.num_sge; ++i) {
    to->inline_data.append(reinterpret_cast<const char*>(from.sg_list[i].addr),
                           from.sg_list[i].length);
  }
  return true;
}

int PostSend(ibv_qp* verbs, ibv_send_wr* request, ibv_send_wr** bad) {
  Qp* pair = From(verbs);
  std::lock_guard<std::mutex> guard(CardOf(verbs->context).lock());
  for (; request != nullptr; request = request->next) {
    std::vector<WorkRequest> one(1);
    const int error =
        Convert(*pair, *request, &one[0]) ? pair->pair->PostSends(std::move(one)) : EINVAL;
    if (error != 0) {
      *bad = request;
      return error;
    }
  }
  return 0;
}

int PostReceive(ibv_qp* verbs, ibv_recv_wr* request, ibv_recv_wr** bad) {
  Qp* pair = From(verbs);
  std::lock_guard<std::mutex> guard(CardOf(verbs->context).lock());
  for (; request != nullptr; request = request->next) {
    ReceiveRequest receive;
    receive.id = request->wr_id;
    receive.buffers.assign(request->sg_list, request->sg_list + request->num_sge);
    const int error = pair->pair->PostReceive(std::move(receive));
    if (error != 0) {
      *bad = request;
      return error;
    }
  }
  return 0;
}

// Creation. `efa` is null for a UD queue pair.

ibv_qp* Create(ibv_context* context, ibv_pd* domain, const ibv_qp_init_attr& attributes,
               uint64_t send_operations, const EfaAttributes* efa) {
  Card& card = CardOf(context);
  const Attributes& limits = card.attributes();
  const ibv_qp_cap& cap = attributes.cap;
  uint64_t allowed = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (efa != nullptr && limits.has(kCapRdmaRead)) allowed |= IBV_QP_EX_WITH_RDMA_READ;
  if (efa != nullptr && limits.has(kCapRdmaWrite)) {
    allowed |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  }
  const uint16_t flags = efa == nullptr ? 0 : efa->flags;
  const uint16_t allowed_flags =
      limits.has(kCapUnsolicitedWriteReceive) ? kUnsolicitedWriteReceiveFlag : 0;
  if (attributes.srq != nullptr || (send_operations & ~allowed) != 0 ||
      (flags & ~allowed_flags) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (domain == nullptr || attributes.send_cq == nullptr || attributes.recv_cq == nullptr ||
      cap.max_send_wr > limits.max_send_requests || cap.max_recv_wr > limits.max_receive_requests ||
      cap.max_send_sge > limits.max_send_sge || cap.max_recv_sge > limits.max_receive_sge ||
      cap.max_inline_data > limits.max_inline) {
    errno = EINVAL;
    return nullptr;
  }
  QueuePair::Options options;
  options.domain = domain;
  options.send_queue = From(attributes.send_cq)->queue.get();
  options.receive_queue = From(attributes.recv_cq)->queue.get();
  options.max_sends = cap.max_send_wr;
  options.max_receives = cap.max_recv_wr;
  options.max_send_sge = cap.max_send_sge;
  options.max_receive_sge = cap.max_recv_sge;
  options.unreliable = efa == nullptr;
  options.unsolicited = (flags & kUnsolicitedWriteReceiveFlag) != 0;
  std::lock_guard<std::mutex> guard(card.lock());
  QueuePair* made = card.CreateQueuePair(options);
  if (made == nullptr) return nullptr;

  auto* pair = new Qp();
  pair->pair = made;
  pair->domain = From(domain);
  pair->signal_all = attributes.sq_sig_all != 0;
  pair->send_operations = send_operations;
  ibv_qp_ex& extended = pair->verbs;
  ibv_qp& verbs = extended.qp_base;
  verbs.context = context;
  verbs.qp_context = attributes.qp_context;
  verbs.pd = domain;
  verbs.send_cq = attributes.send_cq;
  verbs.recv_cq = attributes.recv_cq;
  verbs.qp_num = made->qpn();
  verbs.handle = made->qpn();
  verbs.state = IBV_QPS_RESET;
  verbs.qp_type = attributes.qp_type;
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);
  extended.wr_start = WrStart;
  extended.wr_complete = WrComplete;
  extended.wr_abort = WrAbort;
  extended.wr_send = WrSend;
  extended.wr_send_imm = WrSendImmediate;
  extended.wr_rdma_read = WrRead;
  extended.wr_rdma_write = WrWrite;
  extended.wr_rdma_write_imm = WrWriteImmediate;
  extended.wr_set_ud_addr = WrSetAddress;
  extended.wr_set_inline_data = WrSetInline;
  extended.wr_set_inline_data_list = WrSetInlineList;
  extended.wr_set_sge = WrSetSge;
  extended.wr_set_sge_list = WrSetSgeList;
  ++pair->domain->users;
  ++From(verbs.send_cq)->users;
  ++From(verbs.recv_cq)->users;
  return &verbs;
}

// The part of the extended attributes that is also in the plain ones.
ibv_qp_init_attr Plain(const ibv_qp_init_attr_ex& attributes) {
  ibv_qp_init_attr plain = {};
  plain.qp_context = attributes.qp_context;
  plain.send_cq = attributes.send_cq;
  plain.recv_cq = attributes.recv_cq;
  plain.srq = attributes.srq;
  plain.cap = attributes.cap;
  plain.qp_type = attributes.qp_type;
  plain.sq_sig_all = attributes.sq_sig_all;
  return plain;
}

// True if the card knows every bit of comp_mask. Sets `*send_operations`.
bool Known(const ibv_qp_init_attr_ex& attributes, uint64_t* send_operations) {
  const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  *send_operations =
      (attributes.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? attributes.send_ops_flags : 0;
  return (attributes.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && (attributes.comp_mask & ~known) == 0;
}

ibv_qp* CreateExtended(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  uint64_t send_operations;
  if (attributes->qp_type != IBV_QPT_UD || !Known(*attributes, &send_operations)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return Create(context, attributes->pd, Plain(*attributes), send_operations, nullptr);
}

}  // namespace

void SetQueuePairOperations(verbs_context* context) {
  context->create_qp_ex = CreateExtended;
  context->context.ops.post_send = PostSend;
  context->context.ops.post_recv = PostReceive;
}

}  // namespace efa_device

using efa_device::Card;
using efa_device::CardOf;
using efa_device::EfaAttributes;
using efa_device::From;
using efa_device::Qp;

EFA_DEVICE_EXPORT ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (attributes->qp_type != IBV_QPT_UD) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return efa_device::Create(domain->context, domain, *attributes, 0, nullptr);
}

EFA_DEVICE_EXPORT ibv_qp* efadv_create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes,
                                             efadv_qp_init_attr* efa, uint32_t size) {
  uint64_t send_operations;
  EfaAttributes all = {};
  if (size < sizeof(all) || efa->comp_mask != 0) {
    errno = EINVAL;
    return nullptr;
  }
  memcpy(&all, efa, sizeof(all));
  if (attributes->qp_type != IBV_QPT_DRIVER || all.driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD ||
      !efa_device::Known(*attributes, &send_operations)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return efa_device::Create(context, attributes->pd, efa_device::Plain(*attributes),
                            send_operations, &all);
}

EFA_DEVICE_EXPORT ibv_qp* efadv_create_driver_qp(ibv_pd* domain, ibv_qp_init_attr* attributes,
                                                 uint32_t type) {
  if (attributes->qp_type != IBV_QPT_DRIVER || type != EFADV_QP_DRIVER_TYPE_SRD) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  const EfaAttributes all = {};
  return efa_device::Create(domain->context, domain, *attributes, 0, &all);
}

EFA_DEVICE_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* pair) { return &From(pair)->verbs; }

EFA_DEVICE_EXPORT int ibv_modify_qp(ibv_qp* verbs, ibv_qp_attr* attributes, int mask) {
  Card& card = CardOf(verbs->context);
  std::lock_guard<std::mutex> guard(card.lock());
  const int error = From(verbs)->pair->Modify(*attributes, mask);
  verbs->state = From(verbs)->pair->state();
  return error;
}

EFA_DEVICE_EXPORT int ibv_destroy_qp(ibv_qp* verbs) {
  Qp* pair = From(verbs);
  Card& card = CardOf(verbs->context);
  {
    std::lock_guard<std::mutex> guard(card.lock());
    card.DestroyQueuePair(pair->pair);
  }
  --pair->domain->users;
  --From(verbs->send_cq)->users;
  --From(verbs->recv_cq)->users;
  pthread_mutex_destroy(&verbs->mutex);
  pthread_cond_destroy(&verbs->cond);
  delete pair;
  return 0;
}

// Data of a read or write may be placed in any order.
#undef ibv_query_qp_data_in_order
EFA_DEVICE_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }
