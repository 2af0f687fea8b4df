#include "tests/efa_device/address_handles.h"

#include <set>

namespace efa_device {

bool AddressHandles::Acquire(const Gid& gid, uint16_t* number) {
  const auto found = handles_.find(gid);
  if (found != handles_.end()) {
    ++found->second.count;
    *number = found->second.number;
    return true;
  }
  if (handles_.size() >= limit_) return false;
  std::set<uint16_t> taken;
  for (const auto& handle : handles_) taken.insert(handle.second.number);
  uint16_t free = 0;
  while (taken.count(free) != 0) ++free;
  handles_[gid] = Handle{free, 1};
  *number = free;
  return true;
}

void AddressHandles::Release(const Gid& gid) {
  const auto found = handles_.find(gid);
  if (found != handles_.end() && --found->second.count == 0) handles_.erase(found);
}

uint16_t AddressHandles::Find(const Gid& gid) const {
  const auto found = handles_.find(gid);
  return found == handles_.end() ? kUnknown : found->second.number;
}

}  // namespace efa_device
