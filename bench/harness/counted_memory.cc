#include "bench/harness/counted_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> held{0};
std::atomic<uint64_t> allocations{0};

// A block's size is in front of it.
int64_t Taken(void* memory) {
  return static_cast<int64_t>(malloc_usable_size(memory) + sizeof(size_t));
}

void* Allocate(size_t size, size_t alignment = alignof(std::max_align_t)) {
  void* memory = alignment > alignof(std::max_align_t)
                     ? aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                     : malloc(size == 0 ? 1 : size);
  if (memory == nullptr) abort();
  held.fetch_add(Taken(memory), std::memory_order_relaxed);
  allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  held.fetch_sub(Taken(memory), std::memory_order_relaxed);
  free(memory);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { Free(memory); }

namespace invoker::bench {

int64_t OurBytes() { return held.load(std::memory_order_relaxed); }

uint64_t Allocations() { return allocations.load(std::memory_order_relaxed); }

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace invoker::bench
