// Reactor: the slots' own memory, slots that the provider keeps, and a provider that keeps them
// all.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/transport/base/ring_message.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {
namespace {

// Slots' staging begins at multiples of this: two cache lines, which is what a processor fetches at
// once.
constexpr size_t kStagingAlignment = 128;

// To look for what is to be written off is linear in the slots, so it is not done at every tick,
// but so often while the time runs.
constexpr int64_t kLooksPerWriteOff = 16;

// A driver that was away for long has not seen what completed meanwhile, so of the time between two
// ticks no more than this counts. Longer than the longest sleep.
constexpr int64_t kLongestTickNs = 100'000'000;

size_t StagingBytes(const Profile& profile) {
  return (MaxRingMessageBytes(profile.eager_bytes) + kStagingAlignment - 1) / kStagingAlignment *
         kStagingAlignment;
}

// What the provider holds was given up long ago, and nothing else is on its way.
constexpr int64_t kNothingToWaitForNs = 1'000'000'000;

}  // namespace

// Makes and registers memory for so many slots, which UseStaging then gives to them, and one byte
// behind them, which is the quiesce write's.
absl::Status Reactor::AddStaging(size_t slots) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(slots * StagingBytes(profile()) + 1);
  if (!buffer.ok()) return buffer.status();
  absl::StatusOr<MemoryRegion> region = Register(*std::move(buffer), RegionUse::kSource);
  if (!region.ok()) return region.status();
  staging_.push_back(*std::move(region));
  return absl::OkStatus();
}

void Reactor::UseStaging(absl::Span<Operation> slots) {
  const MemoryRegion& staging = staging_.back();
  const size_t stride = StagingBytes(profile());
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i].staging = staging.data() + i * stride;
    slots[i].staging_descriptor = staging.descriptor();
    slots[i].staging_bytes = stride;
  }
}

void Reactor::WriteOff(int64_t now_ns) {
  if (now_ns < next_write_off_ns_) return;
  next_write_off_ns_ = now_ns + write_off_after_ns_ / kLooksPerWriteOff;
  operations_.WriteOff(now_ns - write_off_after_ns_);
  const size_t wanted = operations_.slots_to_add();
  // Without memory for more, this goes on with fewer, and asks again.
  if (wanted > 0 && AddStaging(wanted).ok()) UseStaging(operations_.Add(wanted));
  if (operations_.capacity() == 0 && health_.ok()) {
    health_ = absl::ResourceExhaustedError(absl::StrCat("the provider keeps all of ",
                                                        operations_.written_off(),
                                                        " operations, to peers that have gone"));
  }
}

// How long nothing may complete, as things are; nullopt: for ever. What is queued to be posted
// again has a limit of its own, unless the provider refuses everybody: it takes so many operations
// at a time, and those that were written off are among them.
std::optional<int64_t> Reactor::StallLimitNs() const {
  if (retry_head_ == nullptr && operations_.outstanding() == operations_.capacity()) {
    return stall_limit_ns_;
  }
  // Whoever was refused may have given up since.
  if (operations_.written_off() == 0 || counters_.posts_refused == refused_at_stall_) {
    return std::nullopt;
  }
  size_t posted = operations_.outstanding();
  for (const Operation* at = retry_head_; at != nullptr; at = at->next) {
    if (at->completions_due == 0) --posted;
  }
  if (posted + operations_.written_off_completions() < profile().transmit_depth) {
    return std::nullopt;
  }
  return posted == 0 ? std::min(stall_limit_ns_, kNothingToWaitForNs) : stall_limit_ns_;
}

void Reactor::LookForStall(int64_t now_ns) {
  const int64_t passed_ns = std::min(now_ns - looked_for_stall_ns_, kLongestTickNs);
  looked_for_stall_ns_ = now_ns;
  if (counters_.completions != completions_at_stall_) {
    stalled_ns_ = 0;
    completions_at_stall_ = counters_.completions;
    refused_at_stall_ = counters_.posts_refused;
    return;
  }
  const std::optional<int64_t> limit_ns = StallLimitNs();
  if (!limit_ns.has_value()) {
    stalled_ns_ = 0;
    return;
  }
  stalled_ns_ += passed_ns;
  if (stalled_ns_ <= *limit_ns || !health_.ok()) return;
  health_ = absl::UnavailableError(
      absl::StrCat("the provider completes nothing any more: none of ", operations_.outstanding(),
                   " operations, and none of ", operations_.written_off(),
                   " to peers that have gone, has completed for ", *limit_ns / 1'000'000,
                   " ms, so every session on this endpoint ends"));
}

}  // namespace invoker::transport
