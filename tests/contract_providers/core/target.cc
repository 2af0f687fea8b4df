// Endpoint, as target: writes are parked and placed late, in pieces; reads and atomics wait their
// turn; every request but a plain message is answered.

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "tests/contract_providers/core/endpoint.h"

namespace contract {

void Endpoint::OnPacket(const PacketHeader& header, const uint8_t* payload) {
  // Meant for an endpoint that had this place before.
  if (header.target_nonce != inner_->place().nonce) return;
  if (header.kind == PacketKind::kAck) return OnAnswer(header);
  if (header.kind == PacketKind::kReadResponse) return OnReadResponse(header, payload);
  Peer* from = FindPeer(av_->IdentityOf(header.source));
  if (from == nullptr) return;
  from->met = true;
  const bool numbered = header.kind == PacketKind::kSend || header.kind == PacketKind::kAtomic;
  if (numbered && (from->forgotten || (header.flags & kRepeated) != 0)) {
    if (header.offset == 0) ++statistics_.messages_unheard;
    return;
  }
  if (contract().target_must_know_initiator && header.kind != PacketKind::kSend &&
      av_->FindLocked(from->identity) == FI_ADDR_NOTAVAIL) {
    // What a device without an address handle for the sender makes of it.
    if (header.offset == 0) Answer(from, header, FI_EHOSTUNREACH);
    return;
  }
  switch (header.kind) {
    case PacketKind::kSend:
      return OnMessagePart(from, header, payload);
    case PacketKind::kWrite:
      return OnWrite(from, header, payload);
    case PacketKind::kRead:
      return OnRead(from, header);
    case PacketKind::kAtomic:
      return OnAtomic(from, header, payload);
    default:
      return;
  }
}

void Endpoint::OnWrite(Peer* from, const PacketHeader& header, const uint8_t* payload) {
  if (header.offset == 0) {
    // A write of no bytes needs a valid key and address as well.
    uint8_t* where = nullptr;
    const int error =
        domain_->FindLocked(header.key, header.address, header.total, FI_REMOTE_WRITE, &where);
    if (error != 0) {
      ++statistics_.writes_refused;
      return Answer(from, header, error);
    }
    auto write = std::make_unique<Parked>();
    write->header = header;
    write->from = from;
    write->bytes.resize(header.total);
    from->writes[header.operation] = std::move(write);
  }
  auto found = from->writes.find(header.operation);
  if (found == from->writes.end()) return;
  Parked* write = found->second.get();
  if (header.payload > 0) memcpy(write->bytes.data() + header.offset, payload, header.payload);
  write->received += header.payload;
  if (write->received < write->header.total) return;

  if ((write->header.flags & (kEarly | kDeliveryComplete)) == kEarly) {
    ++statistics_.early_completions;
    write->answered = true;
    Answer(from, write->header, 0);
  }
  write->placement = PlacementOf(*domain_->config, write->header.fate, write->header.total);
  write->polls = write->placement.pieces.front().polls;
  std::unique_ptr<Parked> owned = std::move(found->second);
  from->writes.erase(found);
  if (!PlaceSome(owned.get())) parked_writes_.push_back(std::move(owned));
}

bool Endpoint::PlaceSome(Parked* write) {
  const std::vector<Piece>& pieces = write->placement.pieces;
  while (write->next_piece < pieces.size() && write->polls == 0) {
    // Looked up again for each piece: the region may have been closed meanwhile.
    uint8_t* where = nullptr;
    const int error = domain_->FindLocked(write->header.key, write->header.address,
                                          write->header.total, FI_REMOTE_WRITE, &where);
    if (error != 0) {
      ++statistics_.writes_refused;
      if (!write->answered) Answer(write->from, write->header, error);
      return true;
    }
    const Piece& piece = pieces[write->next_piece++];
    if (piece.length > 0) {
      memcpy(where + piece.offset, write->bytes.data() + piece.offset, piece.length);
    }
    if (write->next_piece < pieces.size()) write->polls = pieces[write->next_piece].polls;
  }
  if (write->next_piece < pieces.size()) return false;

  ++statistics_.writes_placed;
  if (pieces.size() > 1) ++statistics_.writes_in_pieces;
  if (!write->answered) Answer(write->from, write->header, 0);
  if ((write->header.flags & kImmediate) != 0) {
    const PacketHeader header = write->header;
    Defer(write->placement.immediate_polls, [this, header] { TellImmediate(header); });
  }
  return true;
}

void Endpoint::TellImmediate(const PacketHeader& header) {
  if (contract().immediate_needs_rma_event && (caps_ & FI_RMA_EVENT) == 0) {
    ++statistics_.immediates_dropped;
    return;
  }
  Completion completion;
  completion.flags = contract().immediate_flags;
  completion.data = header.data;
  if (contract().cq_data_bytes < sizeof(completion.data)) {
    completion.data &= (uint64_t{1} << (8 * contract().cq_data_bytes)) - 1;
  }
  if (domain_->config->entries) {
    completion.length = Garbage(header.fate, 0);
    completion.buffer = reinterpret_cast<void*>(Garbage(header.fate, 1));
  }
  rx_cq_->PushLocked(completion);
}

void Endpoint::OnRead(Peer* from, const PacketHeader& header) {
  Defer(ServicePolls(*domain_->config, header.fate), [this, from, header] {
    uint8_t* where = nullptr;
    const int error =
        domain_->FindLocked(header.key, header.address, header.total, FI_REMOTE_READ, &where);
    if (error != 0) return Answer(from, header, error);
    SendResult(from, header, std::vector<uint8_t>(where, where + header.total));
  });
}

void Endpoint::OnAtomic(Peer* from, const PacketHeader& header, const uint8_t* payload) {
  // Operands and comparand fit one packet: atomic_count sees to it.
  auto atomic = std::make_unique<Parked>();
  atomic->header = header;
  atomic->from = from;
  atomic->bytes.assign(payload, payload + header.payload);
  atomic->polls = ServicePolls(*domain_->config, header.fate);
  from->parked_atomics.push_back(std::move(atomic));
  RunAtomics(from, false);
}

void Endpoint::RunAtomics(Peer* from, bool is_poll) {
  const bool ordered = (order_ & FI_ORDER_ATOMIC_WAW) != 0;
  auto& waiting = from->parked_atomics;
  for (auto entry = waiting.begin(); entry != waiting.end();) {
    Parked& atomic = **entry;
    if (is_poll && atomic.polls > 0) --atomic.polls;
    if (atomic.polls > 0) {
      if (ordered) return;
      ++entry;
      continue;
    }
    RunAtomic(from, atomic);
    entry = waiting.erase(entry);
  }
}

void Endpoint::RunAtomic(Peer* from, const Parked& atomic) {
  const PacketHeader& header = atomic.header;
  const auto kind = static_cast<AtomicKind>(header.atomic_kind);
  const auto datatype = static_cast<enum fi_datatype>(header.datatype);
  const auto op = static_cast<enum fi_op>(header.atomic_op);
  const size_t operand_bytes =
      kind == AtomicKind::kCompare ? atomic.bytes.size() / 2 : atomic.bytes.size();
  // FI_ATOMIC_READ has no operand: `data` says how many bytes are meant.
  const uint64_t bytes = op == FI_ATOMIC_READ ? header.data : operand_bytes;
  const uint64_t access =
      kind == AtomicKind::kWrite ? FI_REMOTE_WRITE : FI_REMOTE_WRITE | FI_REMOTE_READ;
  uint8_t* where = nullptr;
  int error = domain_->FindLocked(header.key, header.address, bytes, access, &where);
  if (error == 0 && !AtomicKnown(kind, datatype, op)) error = FI_EOPNOTSUPP;
  if (error != 0) return Answer(from, header, error);
  std::vector<uint8_t> previous(bytes);
  ApplyAtomic(kind, datatype, op, bytes / AtomicSize(datatype), atomic.bytes.data(),
              atomic.bytes.data() + operand_bytes, where, previous.data());
  if (kind == AtomicKind::kWrite) {
    Answer(from, header, 0);
  } else {
    SendResult(from, header, previous);
  }
}

void Endpoint::Answer(Peer* to, const PacketHeader& request, int error) {
  PacketHeader answer = {};
  answer.kind = PacketKind::kAck;
  answer.operation = request.operation;
  answer.status = error;
  Queue(to, answer, {});
}

void Endpoint::SendResult(Peer* to, const PacketHeader& request,
                          const std::vector<uint8_t>& result) {
  uint64_t offset = 0;
  do {
    const uint64_t bytes = std::min<uint64_t>(kPacketPayload, result.size() - offset);
    PacketHeader answer = {};
    answer.kind = PacketKind::kReadResponse;
    answer.operation = request.operation;
    answer.offset = offset;
    answer.payload = static_cast<uint16_t>(bytes);
    const auto begin = result.begin() + static_cast<std::ptrdiff_t>(offset);
    Queue(to, answer, {begin, begin + static_cast<std::ptrdiff_t>(bytes)});
    offset += bytes;
  } while (offset < result.size());
}

void Endpoint::Queue(Peer* to, const PacketHeader& header, std::vector<uint8_t> payload) {
  answers_.push_back({to, header, std::move(payload)});
  memcpy(answers_.back().header.source, address_.data(), address_.size());
  answers_.back().header.target_nonce = to->nonce;
}

void Endpoint::FlushAnswers() {
  // One peer that takes nothing holds up no other.
  size_t rounds = answers_.size();
  while (rounds-- > 0) {
    Packet* packet = inner_->Take();
    if (packet == nullptr) return;
    Queued queued = std::move(answers_.front());
    answers_.pop_front();
    *packet->header() = queued.header;
    if (!queued.payload.empty()) {
      memcpy(packet->payload(), queued.payload.data(), queued.payload.size());
    }
    const ssize_t code = inner_->Send(packet, queued.to->inner);
    if (code == 0) continue;
    inner_->GiveBack(packet);
    // Anything else: the peer is gone, and nobody waits for the answer.
    if (code == -FI_EAGAIN) answers_.push_back(std::move(queued));
  }
}

}  // namespace contract
