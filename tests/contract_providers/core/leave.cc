// Endpoint, as initiator: operations leave as packets, and completions are told.

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "tests/contract_providers/core/endpoint.h"

namespace contract {
namespace {

uint64_t CompletionFlags(const Operation& operation) {
  switch (operation.call.kind) {
    case PacketKind::kSend:
      return FI_MSG | FI_SEND;
    case PacketKind::kWrite:
      return FI_RMA | FI_WRITE;
    case PacketKind::kRead:
      return FI_RMA | FI_READ;
    default:
      return FI_ATOMIC | (operation.result_bytes > 0 ? FI_READ : FI_WRITE);
  }
}

}  // namespace

bool Endpoint::Fenced(const Operation& operation) const {
  if ((operation.call.flags & FI_FENCE) == 0) return false;
  for (const auto& [id, other] : operations_) {
    if (id < operation.id && other->peer == operation.peer && !other->finished) return true;
  }
  return false;
}

bool Endpoint::Leave(Operation* operation) {
  const Call& call = operation->call;
  while (!operation->all_left) {
    Packet* packet = inner_->Take();
    if (packet == nullptr) return false;
    packet->operation = operation->id;
    PacketHeader* header = packet->header();
    header->kind = call.kind;
    header->target_nonce = operation->peer->nonce;
    header->operation = operation->id;
    header->fate = operation->fate.seed;
    header->total = operation->total;
    header->offset = operation->left;
    header->address = call.address;
    header->key = call.key;
    header->data = call.data;
    if ((call.flags & FI_REMOTE_CQ_DATA) != 0) header->flags |= kImmediate;
    if ((call.flags & FI_DELIVERY_COMPLETE) != 0) header->flags |= kDeliveryComplete;
    if (operation->fate.early) header->flags |= kEarly;
    if (operation->peer->forgotten) header->flags |= kRepeated;
    header->atomic_kind = static_cast<uint8_t>(call.atomic_kind);
    header->datatype = static_cast<uint8_t>(call.datatype);
    header->atomic_op = static_cast<uint8_t>(call.atomic_op);
    memcpy(header->source, address_.data(), address_.size());
    if (call.kind != PacketKind::kRead) {
      const uint64_t bytes = std::min<uint64_t>(kPacketPayload, operation->total - operation->left);
      header->payload = static_cast<uint16_t>(bytes);
      if (!operation->copy.empty()) {
        memcpy(packet->payload(), operation->copy.data() + operation->left, bytes);
      } else {
        operation->source.CopyOut(operation->left, bytes, packet->payload());
      }
    }
    const uint64_t bytes = header->payload;
    const ssize_t code = inner_->Send(packet, operation->peer->inner);
    if (code != 0) {
      inner_->GiveBack(packet);
      if (code == -FI_EAGAIN) return false;
      operation->error = static_cast<int>(-code);
      operation->all_left = true;
      break;
    }
    operation->peer->met = true;
    ++operation->in_flight;
    operation->left += bytes;
    operation->all_left = call.kind == PacketKind::kRead || operation->left == operation->total;
  }
  FinishIfDone(operation);
  return true;
}

void Endpoint::LeaveInOrder(std::deque<Operation*>* queue) {
  while (!queue->empty()) {
    Operation* head = queue->front();
    if (head->polls_to_leave > 0 || Fenced(*head) || !Leave(head)) return;
    queue->pop_front();
  }
}

void Endpoint::LeaveAll(bool is_poll) {
  for (auto& [identity, peer] : peers_) {
    for (std::deque<Operation*>* queue : {&peer->sends, &peer->atomics}) {
      if (is_poll && !queue->empty() && queue->front()->polls_to_leave > 0) {
        --queue->front()->polls_to_leave;
      }
      LeaveInOrder(queue);
    }
  }
  for (auto entry = loose_.begin(); entry != loose_.end();) {
    Operation* operation = *entry;
    if (is_poll && operation->polls_to_leave > 0) --operation->polls_to_leave;
    if (operation->polls_to_leave == 0 && !Fenced(*operation) && Leave(operation)) {
      entry = loose_.erase(entry);
    } else {
      ++entry;
    }
  }
}

void Endpoint::OnSent(uint64_t id, int error) {
  auto found = operations_.find(id);
  if (found == operations_.end()) return;
  Operation* operation = found->second.get();
  --operation->in_flight;
  if (error != 0 && operation->error == 0) operation->error = error;
  FinishIfDone(operation);
}

void Endpoint::OnAnswer(const PacketHeader& header) {
  auto found = operations_.find(header.operation);
  if (found == operations_.end()) return;
  found->second->answered = true;
  if (found->second->error == 0) found->second->error = header.status;
  FinishIfDone(found->second.get());
}

void Endpoint::OnReadResponse(const PacketHeader& header, const uint8_t* payload) {
  auto found = operations_.find(header.operation);
  if (found == operations_.end() || found->second->finished) return;
  Operation* operation = found->second.get();
  operation->result.CopyIn(header.offset, header.payload, payload);
  operation->result_received += header.payload;
  operation->answered = operation->result_received >= operation->result_bytes;
  FinishIfDone(operation);
}

void Endpoint::FinishIfDone(Operation* operation) {
  const bool answered = !operation->needs_answer || operation->answered || operation->error != 0;
  // A failed one may still have packets to come back, but none that anybody waits for.
  const bool left = operation->all_left && operation->in_flight == 0;
  if (operation->finished || !left || !answered) return;
  operation->finished = true;
  const uint64_t id = operation->id;
  Defer(operation->fate.complete_polls, [this, id] { Tell(id); });
}

void Endpoint::Tell(uint64_t id) {
  auto found = operations_.find(id);
  const Operation& operation = *found->second;
  if (operation.tell || operation.error != 0) {
    Completion completion;
    completion.context = operation.call.silent ? nullptr : operation.call.context;
    completion.flags = CompletionFlags(operation);
    completion.error = operation.error;
    if (domain_->config->entries && operation.error == 0) {
      // Meant for receives only.
      completion.length = Garbage(operation.fate.seed, 0);
      completion.data = Garbage(operation.fate.seed, 1);
    }
    tx_cq_->PushLocked(completion);
  }
  operations_.erase(found);
}

void Endpoint::Defer(uint32_t polls, std::function<void()> run) {
  if (polls == 0) {
    run();
  } else {
    deferred_.push_back({polls, std::move(run)});
  }
}

}  // namespace contract
