#include "tests/efa_device/memory_table.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace efa_device {
namespace {

// Through the kernel, so that memory which is no longer mapped is an error and not a signal.
using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                             unsigned long);

bool Copy(Transfer transfer, void* local, uint64_t address, size_t length, bool* forbidden) {
  *forbidden = false;
  size_t done = 0;
  while (done < length) {
    iovec mine = {static_cast<char*>(local) + done, length - done};
    iovec other = {reinterpret_cast<void*>(address + done), length - done};
    const ssize_t moved = transfer(getpid(), &mine, 1, &other, 1, 0);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
      continue;
    }
    if (moved < 0 && errno == EINTR) continue;
    *forbidden = moved < 0 && (errno == EPERM || errno == ENOSYS);
    return false;
  }
  return true;
}

}  // namespace

uint32_t MemoryTable::Add(const void* domain, uint64_t address, uint64_t length, int access) {
  do {
    ++last_key_;
  } while (last_key_ == 0 || regions_.count(last_key_) != 0);
  regions_[last_key_] = Region{domain, address, length, access};
  return last_key_;
}

bool MemoryTable::Remove(uint32_t key) { return regions_.erase(key) != 0; }

bool MemoryTable::Grants(const void* domain, uint32_t key, uint64_t address, uint64_t length,
                         int access) const {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return false;
  const Region& region = found->second;
  if (region.domain != domain || (region.access & access) != access) return false;
  if (address < region.address || length > region.length) return false;
  return address - region.address <= region.length - length;
}

bool MemoryTable::CopyOut(void* to, uint64_t address, size_t length) {
  bool forbidden;
  if (Copy(process_vm_readv, to, address, length, &forbidden)) return true;
  if (forbidden) memcpy(to, reinterpret_cast<const void*>(address), length);
  return forbidden;
}

bool MemoryTable::CopyIn(uint64_t address, const void* from, size_t length) {
  bool forbidden;
  if (Copy(process_vm_writev, const_cast<void*>(from), address, length, &forbidden)) return true;
  if (forbidden) memcpy(reinterpret_cast<void*>(address), from, length);
  return forbidden;
}

}  // namespace efa_device
