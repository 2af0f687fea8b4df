#include "tests/fuzz/fabric/network.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "tests/fuzz/fabric/objects.h"

namespace invoker::fuzz {
namespace {

// Where `flight` goes, or nullptr.
std::byte* Target(const Flight& flight) {
  const Endpoint* to = FindEndpoint(flight.to);
  if (to == nullptr) return nullptr;
  for (const Region* region : to->domain->regions) {
    if (region->handle.key != flight.key || (region->access & FI_REMOTE_WRITE) == 0) continue;
    const bool is_virtual = (to->domain->mr_mode & FI_MR_VIRT_ADDR) != 0;
    const uint64_t base = is_virtual ? reinterpret_cast<uintptr_t>(region->data) : 0;
    if (flight.address < base || flight.bytes > region->size ||
        flight.address - base > region->size - flight.bytes) {
      return nullptr;
    }
    return region->data + (flight.address - base);
  }
  return nullptr;
}

const std::byte* BytesOf(const Flight& flight) {
  return flight.source == nullptr ? flight.copied.data()
                                  : static_cast<const std::byte*>(flight.source);
}

}  // namespace

Network& Network::Get() {
  static auto* const network = new Network;
  return *network;
}

void Network::Sweep() {
  while (!flights_.empty() && flights_.front().over()) flights_.pop_front();
  flights_.erase(std::remove_if(flights_.begin(), flights_.end(),
                                [](const Flight& flight) { return flight.over(); }),
                 flights_.end());
}

bool Network::IsBehind(const Flight& flight, bool Flight::*done) const {
  if (!keeps_order_ || flight.from == nullptr) return false;
  for (const Flight& earlier : flights_) {
    if (&earlier == &flight) return false;
    if (earlier.from == flight.from && !(earlier.*done)) return true;
  }
  return false;
}

void Network::Place(Flight* flight) {
  if (flight->placed || IsBehind(*flight, &Flight::placed)) return;
  if (flight->is_send) {
    flight->placed = true;
    return;
  }
  std::byte* target = Target(*flight);
  if (target == nullptr) return Fail(flight);
  if (flight->bytes > 0) memcpy(target, BytesOf(*flight), flight->bytes);
  flight->placed = true;
}

void Network::PlacePart(const Flight& flight, size_t first, size_t count) {
  if (flight.placed || flight.is_send || first >= flight.bytes) return;
  std::byte* target = Target(flight);
  if (target == nullptr) return;
  memcpy(target + first, BytesOf(flight) + first, std::min(count, flight.bytes - first));
}

void Network::Announce(Flight* flight) {
  if (!flight->placed || flight->announced) return;
  if (IsBehind(*flight, &Flight::announced)) return;
  Endpoint* to = FindEndpoint(flight->to);
  if (to == nullptr) return Fail(flight);
  fi_cq_data_entry entry = {};
  if (!flight->is_send) {
    entry.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    entry.len = flight->bytes;
    entry.data = flight->data;
  } else {
    if (to->receives.empty()) return;
    const Receive receive = to->receives.front();
    if (flight->bytes > receive.size) return Fail(flight);
    to->receives.pop_front();
    memcpy(receive.buffer, BytesOf(*flight), flight->bytes);
    entry.op_context = receive.context;
    entry.flags = FI_MSG | FI_RECV;
    entry.len = flight->bytes;
    entry.buf = receive.buffer;
  }
  to->queue->entries.push_back(entry);
  flight->announced = true;
}

void Network::Complete(Flight* flight) {
  if (flight->completed || (flight->wants_delivery && !flight->placed)) return;
  // The sender may use its memory again.
  const bool needed = flight->is_send ? !flight->announced : !flight->placed;
  if (needed && flight->source != nullptr) {
    const auto* bytes = static_cast<const std::byte*>(flight->source);
    flight->copied.assign(bytes, bytes + flight->bytes);
    flight->source = nullptr;
  }
  flight->completed = true;
  if (flight->from != nullptr) {
    flight->from->queue->entries.push_back({flight->context, flight->flags, 0, nullptr, 0});
  }
}

void Network::Fail(Flight* flight) {
  if (!flight->completed && flight->from != nullptr) {
    fi_cq_err_entry entry = {};
    entry.op_context = flight->context;
    entry.flags = flight->flags;
    entry.err = FI_EIO;
    flight->from->queue->errors.push_back(entry);
  }
  flight->placed = flight->announced = flight->completed = true;
}

void Network::Finish(Flight* flight) {
  Place(flight);
  Announce(flight);
  Complete(flight);
}

void Network::Ring(uint32_t endpoint, uint64_t data) {
  Endpoint* to = FindEndpoint(endpoint);
  if (to == nullptr) return;
  fi_cq_data_entry entry = {};
  entry.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  entry.data = data;
  to->queue->entries.push_back(entry);
}

void Network::Forget(const Endpoint* endpoint) {
  for (Flight& flight : flights_) {
    if (flight.from != endpoint) continue;
    flight.from = nullptr;
    flight.placed = flight.announced = flight.completed = true;
  }
}

void Network::Clear() {
  flights_.clear();
  keeps_order_ = false;
  refused_ = 0;
}

}  // namespace invoker::fuzz
