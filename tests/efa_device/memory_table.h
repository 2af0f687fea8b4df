// The card's table of registered memory. Every access of the card goes through it, by key.
//
// Callers hold the card's lock. So once a region has been removed, nothing touches its memory.

#ifndef INVOKER_TESTS_EFA_DEVICE_MEMORY_TABLE_H_
#define INVOKER_TESTS_EFA_DEVICE_MEMORY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace efa_device {

class MemoryTable {
 public:
  // A region of the process's memory that IBV_ACCESS_* flags open to a protection domain. Returns
  // its key, which serves as lkey and rkey and is not given again soon.
  uint32_t Add(const void* domain, uint64_t address, uint64_t length, int access);

  // False if there is no such key.
  bool Remove(uint32_t key);

  size_t size() const { return regions_.size(); }

  // True if `key` is of this domain, covers the range, and grants every flag of `access`.
  bool Grants(const void* domain, uint32_t key, uint64_t address, uint64_t length,
              int access) const;

  // Copy between the card and memory that Grants() has allowed. False if the process has unmapped
  // that memory; a real card has it pinned, so it cannot tell.
  static bool CopyOut(void* to, uint64_t address, size_t length);
  static bool CopyIn(uint64_t address, const void* from, size_t length);

 private:
  struct Region {
    const void* domain;
    uint64_t address;
    uint64_t length;
    int access;
  };
  uint32_t last_key_ = 0;
  std::unordered_map<uint32_t, Region> regions_;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_MEMORY_TABLE_H_
