#include "src/transport/reactor/retired_memory.h"

#include <algorithm>

namespace invoker::transport {
namespace {

// How often to look at what outstanding operations use, which is linear in the slots. All of it has
// its turn together.
constexpr int64_t kLookNs = 100'000'000;
constexpr int64_t kReleasePagesNs = 100'000'000;

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

// Gives back the region's pages, but those that a provider may still read. A peer takes a message
// for what its sender has posted, however late the last bytes come. Returns whether there are any.
bool ReleaseUnreadPages(MemoryRegion* region, const Sources& sources) {
  uint64_t from = 0;
  bool in_use = false;
  for (auto source = FirstWithin(*region, sources);
       source != sources.end() && IsWithin(*region, source->begin); ++source) {
    const auto offset = static_cast<uint64_t>(source->begin - region->data());
    region->ReleasePages(from, offset);
    from = std::max(from, offset + source->bytes);
    in_use = true;
  }
  region->ReleasePages(from, region->size());
  return in_use;
}

}  // namespace

void RetiredMemory::Retire(MemoryRegion region, std::shared_ptr<const void> share,
                           const OperationPool& operations, int64_t now_ns) {
  if (region.data() == nullptr) return;
  ReleaseUnreadPages(&region, operations.Sources());
  retired_.emplace(now_ns + retirement_ns_, Retired{std::move(region), std::move(share)});
}

void RetiredMemory::ReleaseDue(int64_t now_ns, const OperationPool& operations) {
  const auto due = [&] { return !retired_.empty() && retired_.begin()->first < now_ns; };
  if (!keep_ && due()) {
    const Sources sources = operations.Sources();
    while (due()) {
      auto node = retired_.extract(retired_.begin());
      Retired& retired = node.mapped();
      if (retired.in_use) --in_use_;
      retired.in_use = ReleaseUnreadPages(&retired.region, sources);
      if (retired.in_use) {
        ++in_use_;
        retired.share = nullptr;
        node.key() = (now_ns / kLookNs + 1) * kLookNs;
        retired_.insert(std::move(node));
        continue;
      }
      const bool quarantines = retired.region.remotely_writable();
      HostBuffer buffer = std::move(retired.region).Close();
      if (quarantines) quarantine_.Take(std::move(buffer));
    }
  }
  if (quarantine_.bytes() > 0 && next_release_pages_ns_ < now_ns) {
    next_release_pages_ns_ = now_ns + kReleasePagesNs;
    quarantine_.ReleasePages();
  }
}

void RetiredMemory::DropShares() {
  for (auto& [due_ns, retired] : retired_) retired.share = nullptr;
}

void RetiredMemory::CloseRegions() {
  for (auto& [due_ns, retired] : retired_) {
    closed_.push_back(std::move(retired.region).Close());
  }
  retired_.clear();
}

}  // namespace invoker::transport
