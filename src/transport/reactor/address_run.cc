#include "src/transport/reactor/address_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17; older kernels take the address as a wish
#endif

namespace invoker::transport {
namespace {

constexpr uintptr_t kGiB = uintptr_t{1} << 30;

// Blocks lie between kLowest and kApart below what the kernel maps, where others seldom come.
#ifdef __SANITIZE_THREAD__
// ThreadSanitizer has the rest for itself.
constexpr uintptr_t kLowest = 0x7e8000000000;
constexpr uintptr_t kApart = 16 * kGiB;
constexpr uintptr_t kBlock = 4 * kGiB;
#else
constexpr uintptr_t kLowest = 24 * 1024 * kGiB;
constexpr uintptr_t kApart = 2 * 1024 * kGiB;
constexpr uintptr_t kBlock = 64 * kGiB;
#endif

// For one piece: some would have to reserve 16 TiB beside one another to be in its way. The next
// one looks on from there.
constexpr int kBlocksLookedAt = 256;

size_t RoundUp(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// Where the kernel maps just now. 0 if it does not.
uintptr_t KernelsPlace() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const at = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 0;
  munmap(at, page);
  return reinterpret_cast<uintptr_t>(at);
}

// The blocks of this process, from the highest down, and then again from there: which of them are
// free by then is for who takes one to find out.
class Blocks {
 public:
  // The end of the next one, which is so many whole blocks long. 0 if there is none.
  uintptr_t Next(size_t length) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (highest_ == 0) {
      const uintptr_t top = KernelsPlace();
      if (top < kApart) return 0;
      highest_ = next_ = (top - kApart) / kBlock * kBlock;
    }
    if (highest_ < kLowest || length > highest_ - kLowest) return 0;
    if (next_ < kLowest + length) next_ = highest_;
    const uintptr_t end = next_;
    next_ -= length;
    return end;
  }

 private:
  absl::Mutex mutex_;
  uintptr_t highest_ ABSL_GUARDED_BY(mutex_) = 0;
  uintptr_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

Blocks& GetBlocks() {
  static auto* const blocks = new Blocks;
  return *blocks;
}

}  // namespace

AddressRun::Place AddressRun::MapBelow(uintptr_t end, size_t mapped, void** at) {
  void* const wanted = reinterpret_cast<void*>(end - mapped);
  *at = mmap(wanted, mapped, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (*at == wanted) return Place::kGranted;
  if (*at == MAP_FAILED) return errno == EEXIST ? Place::kTaken : Place::kRefused;
  munmap(*at, mapped);
  return Place::kTaken;
}

absl::StatusOr<HostBuffer> AddressRun::Allocate(size_t size) {
  const bool is_large = size >= kLargePageBytes;
  const size_t unit = is_large ? kLargePageBytes : static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (size > SIZE_MAX - kBlock) return HostBuffer::Allocate(size);
  const size_t mapped = RoundUp(size, unit);
  const size_t block = RoundUp(mapped, kBlock);
  absl::MutexLock lock(&mutex_);
  Run& run = is_large ? large_ : small_;
  Run next = run;
  for (int looked_at = 0;; ++looked_at) {
    const uintptr_t ends[] = {next.last_end, next.lowest};
    for (const uintptr_t end : ends) {
      if (end - next.block < mapped) continue;
      void* at;
      const Place place = MapBelow(end, mapped, &at);
      // It is the memory that is wanting, and not the place.
      if (place == Place::kRefused) return HostBuffer::Allocate(size);
      if (place == Place::kTaken) continue;
      run = {end, end - mapped, next.block};
      return HostBuffer::Own(at, size, mapped);
    }
    // It has not begun, its block is full, or somebody else is there.
    const uintptr_t end = looked_at < kBlocksLookedAt ? GetBlocks().Next(block) : 0;
    if (end == 0) break;
    next = {end, end, end - block};
  }
  return HostBuffer::Allocate(size);
}

}  // namespace invoker::transport
