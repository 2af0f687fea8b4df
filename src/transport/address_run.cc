#include "src/transport/address_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17; older kernels take the address as a wish
#endif

namespace invoker::transport {
namespace {

// Far enough from where the kernel maps, and from the next run, for all that a run is likely to
// have. Where that is not so, two of them meet, and one goes on at another start.
constexpr uintptr_t kApart = uintptr_t{2} << 40;
constexpr unsigned kStarts = 24;

size_t RoundUp(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

}  // namespace

// Below what the kernel maps just now. 0 if there is not so much room.
uintptr_t AddressRun::Start() {
  static std::atomic<unsigned> starts{0};
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const at = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 0;
  munmap(at, page);
  const uintptr_t top = reinterpret_cast<uintptr_t>(at) / kLargePageBytes * kLargePageBytes;
  const uintptr_t below = (starts.fetch_add(1, std::memory_order_relaxed) % kStarts + 1) * kApart;
  return top > below ? top - below : 0;
}

std::optional<HostBuffer> AddressRun::MapBelow(uintptr_t end, size_t size, size_t mapped) {
  if (end <= mapped) return std::nullopt;
  void* const wanted = reinterpret_cast<void*>(end - mapped);
  void* const at = mmap(wanted, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED) return std::nullopt;
  if (at != wanted) {
    munmap(at, mapped);
    return std::nullopt;
  }
  return HostBuffer::Own(at, size, mapped);
}

absl::StatusOr<HostBuffer> AddressRun::Allocate(size_t size) {
  const bool is_large = size >= kLargePageBytes;
  const size_t unit = is_large ? kLargePageBytes : static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (size > SIZE_MAX - unit) return HostBuffer::Allocate(size);
  const size_t mapped = RoundUp(size, unit);
  absl::MutexLock lock(&mutex_);
  Run& run = is_large ? large_ : small_;
  const Run before = run;
  for (unsigned starts = 0; starts <= kStarts; ++starts) {
    const uintptr_t ends[] = {run.last_end, run.lowest};
    for (const uintptr_t end : ends) {
      std::optional<HostBuffer> next = MapBelow(end, size, mapped);
      if (!next.has_value()) continue;
      run = {end, end - mapped};
      return *std::move(next);
    }
    // It has not begun, or somebody else is there.
    run.lowest = run.last_end = Start();
  }
  // It may be the memory that is wanting, and not the place.
  run = before;
  return HostBuffer::Allocate(size);
}

}  // namespace invoker::transport
