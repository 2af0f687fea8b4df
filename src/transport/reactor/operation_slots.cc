#include "src/transport/reactor/operation_slots.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/transport/base/ring_message.h"

namespace invoker::transport {
namespace {

// Two cache lines, which a processor fetches at once.
constexpr size_t kStagingAlignment = 128;

// The search for slots to quarantine is linear in the slots, so it runs only so often within the
// time that passes before.
constexpr int64_t kLooksPerQuarantine = 16;

}  // namespace

OperationSlots::OperationSlots(size_t slots, size_t eager_bytes, absl::Duration quarantine_after)
    : pool_(slots),
      stride_((MaxRingMessageBytes(eager_bytes) + kStagingAlignment - 1) / kStagingAlignment *
              kStagingAlignment),
      quarantine_after_ns_(absl::ToInt64Nanoseconds(quarantine_after)) {}

absl::Status OperationSlots::Open(RegisterFunction register_memory) {
  absl::Status status = AddStaging(pool_.capacity(), register_memory);
  if (status.ok()) UseStaging(pool_.slots());
  return status;
}

absl::Status OperationSlots::Replace(int64_t now_ns, RegisterFunction register_memory) {
  if (now_ns < next_quarantine_ns_) return absl::OkStatus();
  next_quarantine_ns_ = now_ns + quarantine_after_ns_ / kLooksPerQuarantine;
  pool_.QuarantineRetired(now_ns - quarantine_after_ns_);
  const size_t wanted = pool_.slots_to_add();
  // Without memory for more, the reactor goes on with fewer, and asks again.
  if (wanted > 0 && AddStaging(wanted, register_memory).ok()) UseStaging(pool_.Add(wanted));
  if (pool_.capacity() > 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the provider keeps all of ", pool_.quarantined(), " operations, to peers that have gone"));
}

// The first piece has one byte more, which is the spare one.
absl::Status OperationSlots::AddStaging(size_t slots, RegisterFunction register_memory) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(slots * stride_ + 1);
  if (!buffer.ok()) return buffer.status();
  absl::StatusOr<MemoryRegion> region = register_memory(*std::move(buffer));
  if (!region.ok()) return region.status();
  staging_.push_back(*std::move(region));
  return absl::OkStatus();
}

void OperationSlots::UseStaging(absl::Span<Operation> slots) {
  const MemoryRegion& staging = staging_.back();
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i].staging = staging.data() + i * stride_;
    slots[i].staging_descriptor = staging.descriptor();
    slots[i].staging_bytes = stride_;
  }
}

}  // namespace invoker::transport
