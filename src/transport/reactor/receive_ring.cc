#include "src/transport/reactor/receive_ring.h"

#include <utility>

#include "src/transport/base/status.h"

namespace invoker::transport {
namespace {

// Two cache lines, which is what a processor fetches at once, so that no two receives share one.
constexpr size_t kAlignment = 128;

size_t StrideFor(size_t message_bytes) {
  return (message_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

ReceiveRing::ReceiveRing(const Endpoint& endpoint, MemoryRegion memory, size_t buffers,
                         size_t stride)
    : endpoint_(endpoint.poster()),
      memory_(std::move(memory)),
      count_(buffers),
      stride_(stride),
      slots_(new Slot[buffers]) {
  unposted_.reserve(buffers);
}

absl::StatusOr<ReceiveRing> ReceiveRing::Open(const Fabric& fabric, const Domain& domain,
                                              const Endpoint& endpoint, size_t buffers,
                                              size_t message_bytes) {
  const size_t stride = StrideFor(message_bytes);
  absl::StatusOr<HostBuffer> memory = HostBuffer::Allocate(buffers * stride);
  if (!memory.ok()) return memory.status();
  absl::StatusOr<MemoryRegion> region =
      MemoryRegion::Register(fabric, domain, endpoint, *std::move(memory), RegionUse::kReceive);
  if (!region.ok()) return region.status();
  ReceiveRing ring(endpoint, *std::move(region), buffers, stride);
  for (size_t i = 0; i < buffers; ++i) {
    const int code = ring.Post(i);
    // Fewer receives than planned still work; none would not.
    if (code == -FI_EAGAIN && i > 0) {
      ring.unposted_.push_back(i);
    } else if (code != 0) {
      return ToStatus("fi_recv", code);
    }
  }
  return ring;
}

std::optional<absl::Span<const std::byte>> ReceiveRing::Find(void* context, size_t bytes) const {
  const std::optional<size_t> index = IndexOf(context);
  if (!index.has_value() || bytes > stride_) return std::nullopt;
  return absl::MakeConstSpan(memory_.data() + *index * stride_, bytes);
}

bool ReceiveRing::Recycle(void* context) {
  const std::optional<size_t> index = IndexOf(context);
  if (!index.has_value()) return false;
  if (Post(*index) != 0) unposted_.push_back(*index);
  return true;
}

void ReceiveRing::Replenish() {
  while (!unposted_.empty()) {
    if (Post(unposted_.back()) != 0) return;
    unposted_.pop_back();
  }
}

std::optional<size_t> ReceiveRing::IndexOf(void* context) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(context);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(slots_.get());
  if (address < begin || (address - begin) % sizeof(Slot) != 0) return std::nullopt;
  const size_t index = (address - begin) / sizeof(Slot);
  if (index >= count_) return std::nullopt;
  return index;
}

int ReceiveRing::Post(size_t index) {
  return static_cast<int>(fi_recv(endpoint_, memory_.data() + index * stride_, stride_,
                                  memory_.descriptor(), FI_ADDR_UNSPEC, &slots_[index].context));
}

}  // namespace invoker::transport
