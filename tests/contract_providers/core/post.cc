// Endpoint: a call that posts becomes an operation, or is refused.

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "tests/contract_providers/core/endpoint.h"

namespace contract {
namespace {

bool IsRma(PacketKind kind) { return kind == PacketKind::kWrite || kind == PacketKind::kRead; }

}  // namespace

int Endpoint::CheckDescriptors(const Call& call) const {
  for (size_t i = 0; i < call.iov_count; ++i) {
    const void* descriptor = call.descriptors == nullptr ? nullptr : call.descriptors[i];
    if (descriptor == nullptr) {
      const bool small = call.iov[i].iov_len <= contract().inject_bytes && call.iov_count == 1;
      if (contract().descriptor_needed && !small) return -FI_EINVAL;
      continue;
    }
    // A descriptor of a region that is gone would be followed into freed memory.
    const auto* region = static_cast<const Region*>(descriptor);
    if (domain_->descriptors.count(region) == 0) return -FI_EINVAL;
    const auto* begin = static_cast<const uint8_t*>(call.iov[i].iov_base);
    const uint64_t length = call.iov[i].iov_len;
    if (length > 0 && (begin < region->base || length > region->length ||
                       static_cast<uint64_t>(begin - region->base) > region->length - length)) {
      return -FI_EINVAL;
    }
  }
  return 0;
}

int Endpoint::CheckCall(const Call& call, uint64_t length) const {
  if (!enabled()) return -FI_EOPBADSTATE;
  const uint64_t needed = call.kind == PacketKind::kSend     ? FI_MSG
                          : call.kind == PacketKind::kAtomic ? FI_ATOMIC
                                                             : FI_RMA;
  if ((caps_ & needed) == 0) return -FI_EOPNOTSUPP;
  const size_t iov_limit = IsRma(call.kind) ? contract().rma_local_iov_limit : contract().iov_limit;
  if (call.iov_count > iov_limit) return -FI_EINVAL;
  if ((call.flags & FI_INJECT) != 0 && length > contract().inject_bytes) return -FI_EINVAL;
  const uint64_t most = IsRma(call.kind) ? contract().max_rma_bytes : contract().max_message_bytes;
  if (length > most) return -FI_EMSGSIZE;
  if (IsRma(call.kind) && call.remote_length > length) return -FI_EINVAL;
  return CheckDescriptors(call);
}

Peer* Endpoint::FindPeer(const std::string& identity) {
  auto found = peers_.find(identity);
  if (found != peers_.end()) return found->second.get();
  Place place;
  // The rest of an address, which does not identify anybody, is not looked at.
  std::string raw = identity;
  raw.resize(contract().address_bytes);
  if (!DecodeAddress(contract(), raw.data(), &place)) return nullptr;
  auto peer = std::make_unique<Peer>();
  peer->identity = identity;
  peer->nonce = place.nonce;
  if (inner_->AddPeer(contract(), place, &peer->inner) != 0) return nullptr;
  return peers_.emplace(identity, std::move(peer)).first->second.get();
}

Endpoint::Route* Endpoint::FindRoute(fi_addr_t address) {
  const AddressVector::Entry* entry = av_->FindLocked(address);
  if (entry == nullptr) return nullptr;
  auto found = routes_.find(address);
  if (found != routes_.end()) return &found->second;
  Peer* peer = FindPeer(av_->IdentityOf(entry->raw.data()));
  if (peer == nullptr) return nullptr;
  Route& route = routes_[address];
  route.peer = peer;
  route.storm = freedoms_.NextStorm();
  return &route;
}

ssize_t Endpoint::PostLocked(const Call& call) {
  uint64_t length = 0;
  for (size_t i = 0; i < call.iov_count; ++i) length += call.iov[i].iov_len;
  const int code = CheckCall(call, length);
  if (code != 0) return code;
  Route* route = FindRoute(call.peer);
  if (route == nullptr) return -FI_EINVAL;
  const bool greeted_only = IsRma(call.kind) || (call.flags & FI_DELIVERY_COMPLETE) != 0;
  if (greeted_only && route->peer->forgotten) return -FI_EAGAIN;
  if (tx_room() == 0) return -FI_EAGAIN;
  Fate fate;
  if (!freedoms_.Draw(&route->storm, call.kind == PacketKind::kWrite ? length : 0, &fate)) {
    return -FI_EAGAIN;
  }

  auto owned = std::make_unique<Operation>();
  Operation* operation = owned.get();
  operation->id = next_id_++;
  operation->call = call;
  operation->peer = route->peer;
  operation->fate = fate;
  operation->polls_to_leave = fate.leave_polls;
  operation->total = length;
  operation->source = Buffers(call.iov, call.iov_count);
  operation->tell = !call.silent && (!tx_selective_ || (call.flags & FI_COMPLETION) != 0);
  operation->needs_answer =
      call.kind != PacketKind::kSend || (call.flags & FI_DELIVERY_COMPLETE) != 0;
  if (contract().immediate_needs_rma_event && call.kind == PacketKind::kWrite &&
      (call.flags & FI_REMOTE_CQ_DATA) != 0 && (caps_ & FI_RMA_EVENT) == 0) {
    operation->call.flags &= ~uint64_t{FI_REMOTE_CQ_DATA};
    ++statistics_.immediates_dropped;
  }
  if (call.kind == PacketKind::kRead) {
    operation->result = operation->source;
    operation->result_bytes = length;
  }
  if (call.kind == PacketKind::kAtomic) {
    // Operands are copied, as an atomic's packet is built at once in both providers.
    operation->copy.resize(length);
    operation->source.CopyOut(0, length, operation->copy.data());
    if (call.comparand != nullptr) {
      const auto* comparand = static_cast<const uint8_t*>(call.comparand);
      operation->copy.insert(operation->copy.end(), comparand, comparand + length);
    }
    operation->total = operation->copy.size();
    if (call.result != nullptr) {
      operation->result_bytes = AtomicSize(call.datatype) * call.atomic_count;
      const iovec result = {call.result, operation->result_bytes};
      operation->result = Buffers(&result, 1);
    }
  } else if ((call.flags & FI_INJECT) != 0) {
    operation->copy.resize(length);
    operation->source.CopyOut(0, length, operation->copy.data());
  }
  operations_.emplace(operation->id, std::move(owned));
  if (call.kind == PacketKind::kSend && (order_ & FI_ORDER_SAS) != 0) {
    operation->peer->sends.push_back(operation);
  } else if (call.kind == PacketKind::kAtomic && (order_ & FI_ORDER_ATOMIC_WAW) != 0) {
    operation->peer->atomics.push_back(operation);
  } else {
    loose_.push_back(operation);
  }
  LeaveAll(false);
  return 0;
}

}  // namespace contract
