// Reactor: memory that is no longer used, and what a provider or a peer may still do with it.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/transport/reactor/reactor.h"

namespace invoker::transport {
namespace {

// To look for what operations are outstanding from is linear in the slots.
constexpr int64_t kLookAtHeldNs = 100'000'000;

constexpr int64_t kDiscardNs = 100'000'000;

using Sources = std::vector<OperationPool::Source>;

// The first source in the region, if any.
Sources::const_iterator FirstWithin(const MemoryRegion& region, const Sources& sources) {
  return std::lower_bound(
      sources.begin(), sources.end(), region.data(),
      [](const OperationPool::Source& source, const std::byte* at) { return source.begin < at; });
}

bool IsWithin(const MemoryRegion& region, const std::byte* at) {
  return at >= region.data() && at < region.data() + region.size();
}

bool AnyWithin(const MemoryRegion& region, const Sources& sources) {
  const auto first = FirstWithin(region, sources);
  return first != sources.end() && IsWithin(region, first->begin);
}

// Gives back the region's pages, but those that a provider may still read. A peer takes a message
// for what its sender has posted, however late the last bytes come.
void DiscardUnread(MemoryRegion* region, const Sources& sources) {
  uint64_t from = 0;
  for (auto source = FirstWithin(*region, sources);
       source != sources.end() && IsWithin(*region, source->begin); ++source) {
    const auto offset = static_cast<uint64_t>(source->begin - region->data());
    region->Discard(from, offset);
    from = std::max(from, offset + source->bytes);
  }
  region->Discard(from, region->size());
}

}  // namespace

void Reactor::Retire(MemoryRegion region, std::shared_ptr<const void> share) {
  if (region.data() == nullptr) return;
  DiscardUnread(&region, operations_.Sources());
  if (endpoint_->lost()) share = nullptr;
  retired_.push_back({std::move(region), {}, MonotonicNs() + retirement_ns_, std::move(share)});
}

// What a provider may still read is kept for as long as the operation is outstanding, also when it
// has been written off: a peer that was stopped goes on with it hours later, and is sent what is
// there then. The same holds for what we read from a peer.
void Reactor::ReleaseRetired(int64_t now_ns) {
  const auto due = [&] { return !retired_.empty() && retired_.front().until_ns < now_ns; };
  const bool look_at_held = !held_.empty() && next_look_at_held_ns_ < now_ns;
  if (due() || look_at_held) {
    const Sources sources = operations_.Sources();
    const auto release = [this](Retired* retired) {
      const bool take = retired->region.remotely_writable();
      HostBuffer buffer = std::move(retired->region).Close();
      if (take) quarantine_.Take(std::move(buffer));
    };
    for (; due(); retired_.pop_front()) {
      if (AnyWithin(retired_.front().region, sources)) {
        held_.push_back(std::move(retired_.front()));
        held_.back().share = nullptr;
      } else {
        release(&retired_.front());
      }
    }
    if (look_at_held) {
      next_look_at_held_ns_ = now_ns + kLookAtHeldNs;
      const auto kept = std::partition(held_.begin(), held_.end(), [&](const Retired& held) {
        return AnyWithin(held.region, sources);
      });
      std::for_each(kept, held_.end(), [&](Retired& held) { release(&held); });
      held_.erase(kept, held_.end());
      // What has been read meanwhile.
      for (Retired& held : held_) DiscardUnread(&held.region, sources);
    }
  }
  if (quarantine_.bytes() > 0 && next_discard_ns_ < now_ns) {
    next_discard_ns_ = now_ns + kDiscardNs;
    quarantine_.Discard();
  }
}

}  // namespace invoker::transport
