// The regions of one reactor that messages on its receive ring may name, found by key.
//
// Driver thread only. The table outlives every listing in it.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_REGION_TABLE_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_REGION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace invoker::transport {

// What messages may do with a region.
enum class RegionRole : uint8_t {
  kWindow,    // whole messages may be placed in it
  kCounters,  // numbers may be added to the 64-bit words that it consists of
};

class RegionListing;

class RegionTable {
 public:
  struct Entry {
    uint64_t key = 0;
    std::byte* data = nullptr;  // nullptr: an empty place
    size_t size = 0;
    RegionRole role = RegionRole::kWindow;

    // Whether [offset, offset + bytes) lies inside. Cannot overflow.
    bool Contains(uint64_t offset, uint64_t bytes) const {
      return bytes <= size && offset <= size - bytes;
    }
  };

  RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  // Lists the memory for as long as the result lives. ALREADY_EXISTS if the key is taken: nothing
  // could tell the two regions apart.
  absl::StatusOr<RegionListing> Insert(uint64_t key, std::byte* data, size_t size, RegionRole role);

  // nullptr if there is none. One multiplication and, as a rule, one comparison.
  const Entry* Find(uint64_t key) const {
    for (size_t place = PlaceOf(key);; place = (place + 1) & (entries_.size() - 1)) {
      const Entry& entry = entries_[place];
      if (entry.data == nullptr) return nullptr;
      if (entry.key == key) return &entry;
    }
  }

  size_t size() const { return count_; }

 private:
  friend class RegionListing;

  // Where the search for a key begins: keys may be random numbers, or small ones one after another.
  size_t PlaceOf(uint64_t key) const { return (key * 0x9e3779b97f4a7c15u) >> shift_; }
  void Place(const Entry& entry);
  void Remove(uint64_t key);

  // A power of two, never more than half full.
  std::vector<Entry> entries_;
  int shift_;
  size_t count_ = 0;
};

// A region's place in the table.
class RegionListing {
 public:
  RegionListing() = default;
  RegionListing(RegionListing&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), key_(other.key_) {}
  RegionListing& operator=(RegionListing&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(key_, other.key_);
    return *this;
  }
  ~RegionListing() {
    if (table_ != nullptr) table_->Remove(key_);
  }

 private:
  friend class RegionTable;
  RegionListing(RegionTable* table, uint64_t key) : table_(table), key_(key) {}

  RegionTable* table_ = nullptr;
  uint64_t key_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_REGION_TABLE_H_
