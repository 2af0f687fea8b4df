#include "src/transport/fabric/region_table.h"

#include <cassert>

#include "absl/status/status.h"

namespace invoker::transport {
namespace {

constexpr int kFirstBits = 4;  // 16 places

}  // namespace

RegionTable::RegionTable() : entries_(size_t{1} << kFirstBits), shift_(64 - kFirstBits) {}

absl::StatusOr<RegionListing> RegionTable::Insert(uint64_t key, std::byte* data, size_t size,
                                                  RegionRole role) {
  if (data == nullptr) return absl::InvalidArgumentError("a region without memory");
  if (Find(key) != nullptr) {
    return absl::AlreadyExistsError("two regions of one endpoint have the same memory key");
  }
  if (2 * (count_ + 1) > entries_.size()) {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    --shift_;
    for (const Entry& entry : old) {
      if (entry.data != nullptr) Place(entry);
    }
  }
  Place({key, data, size, role});
  ++count_;
  return RegionListing(this, key);
}

void RegionTable::Place(const Entry& entry) {
  size_t place = PlaceOf(entry.key);
  while (entries_[place].data != nullptr) place = (place + 1) & (entries_.size() - 1);
  entries_[place] = entry;
}

// Closes the gap, so that no search ends at it too early.
void RegionTable::Remove(uint64_t key) {
  assert(Find(key) != nullptr);
  const size_t mask = entries_.size() - 1;
  size_t gap = PlaceOf(key);
  while (entries_[gap].key != key || entries_[gap].data == nullptr) gap = (gap + 1) & mask;
  for (size_t next = (gap + 1) & mask; entries_[next].data != nullptr; next = (next + 1) & mask) {
    // One whose search begins after the gap stays where it is.
    if (((next - PlaceOf(entries_[next].key)) & mask) < ((next - gap) & mask)) continue;
    entries_[gap] = entries_[next];
    gap = next;
  }
  entries_[gap] = Entry();
  --count_;
}

}  // namespace invoker::transport
