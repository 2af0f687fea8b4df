// What this program's C++ code has taken from the heap: operator new is replaced in every program
// that links this. libfabric is written in C and takes its memory elsewhere, so that ours and the
// provider's can be told apart. Any thread.

#ifndef INVOKER_BENCH_HARNESS_COUNTED_MEMORY_H_
#define INVOKER_BENCH_HARNESS_COUNTED_MEMORY_H_

#include <cstdint>

namespace invoker::bench {

// Bytes that operator new has handed out and that have not been given back, with what the allocator
// adds to each block.
int64_t OurBytes();

// How often operator new has been called so far.
uint64_t Allocations();

// Bytes of the C library's heap in use, ours included.
int64_t HeapBytes();

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_COUNTED_MEMORY_H_
