#include "src/invoke/executor/session/doorbell_queue.h"

#include <cassert>

namespace invoker {
namespace {

constexpr uint32_t kWordBits = 64;

}  // namespace

absl::StatusOr<DoorbellQueue> DoorbellQueue::Allocate(uint32_t cells, ExecutorWatch* watch) {
  const size_t entries = size_t{2} * cells;
  absl::StatusOr<transport::HostBuffer> memory =
      transport::HostBuffer::Allocate(entries * sizeof(uint64_t) + (1u << kPlaceBits) / 8);
  if (!memory.ok()) return memory.status();
  return DoorbellQueue(*std::move(memory), cells, watch);
}

uint64_t DoorbellQueue::Pack(const Doorbell& doorbell) {
  const uint64_t place = doorbell.cell | (doorbell.kind == MessageKind::kProbe ? kProbePlace : 0);
  return static_cast<uint64_t>(doorbell.arrived_ns / 1000) << kPlaceBits | place;
}

uint64_t& DoorbellQueue::Word(uint64_t place) const {
  return reinterpret_cast<uint64_t*>(memory_.data())[mask_ + 1 + place / kWordBits];
}

bool DoorbellQueue::Mark(uint64_t entry) {
  const uint64_t place = entry & ((1u << kPlaceBits) - 1);
  const uint64_t bit = uint64_t{1} << (place % kWordBits);
  uint64_t& word = Word(place);
  if ((word & bit) != 0) return false;
  word |= bit;
  return true;
}

void DoorbellQueue::Push(const Doorbell& doorbell) {
  const uint64_t entry = Pack(doorbell);
  if (!Mark(entry)) return;
  Entry(first_ + count_.value()) = entry;
  count_.Increment();
}

void DoorbellQueue::PushFront(const Doorbell& doorbell) {
  const uint64_t entry = Pack(doorbell);
  if (!Mark(entry)) return;
  Entry(--first_) = entry;
  count_.Increment();
}

DoorbellQueue::Doorbell DoorbellQueue::Pop() {
  assert(!empty());
  const uint64_t entry = Entry(first_++);
  // A short backlog stays on the same few pages.
  count_.Decrement();
  if (empty()) first_ = 0;
  const uint64_t place = entry & ((1u << kPlaceBits) - 1);
  Word(place) &= ~(uint64_t{1} << (place % kWordBits));
  return {(place & kProbePlace) != 0 ? MessageKind::kProbe : MessageKind::kRequest,
          static_cast<uint32_t>(place & (kProbePlace - 1)),
          static_cast<int64_t>(entry >> kPlaceBits) * 1000};
}

}  // namespace invoker
