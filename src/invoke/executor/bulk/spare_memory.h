// Memory that calls of a session have used, for its next ones.
//
// The kernel finds and clears every page of new memory, which takes longer than to copy into it.
// The kernel may take the pages of spare memory whenever it needs some (MADV_FREE), also where a
// control group has reached its limit. So no budget counts them, though they show as memory of the
// process until then. They go to no other session, whose client could see what was in them.
// A second after the last call they are given back. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_BULK_SPARE_MEMORY_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_BULK_SPARE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

class SpareMemory {
 public:
  // `keepers` counts those that keep something, and outlives this; nullptr: nothing does.
  explicit SpareMemory(std::atomic<uint32_t>* keepers) : keepers_(keepers) {}
  ~SpareMemory() { Clear(); }
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  // So many bytes, more than 0, of which nobody knows what is in them: spare memory that fits, or
  // new memory. RESOURCE_EXHAUSTED if there is none.
  absl::StatusOr<transport::HostBuffer> Take(size_t bytes);

  // Keeps the buffer, in place of the one that was kept first if there are many; or unmaps it,
  // where the kernel cannot take its pages, or a limit of the process counts them nevertheless.
  void Give(transport::HostBuffer buffer, int64_t now_ns);

  // Now and then: gives everything back if nothing has been kept for a while.
  void ClearIfIdle(int64_t now_ns);

 private:
  void Clear();
  void Count();

  std::atomic<uint32_t>* const keepers_;
  bool counted_ = false;
  int64_t given_ns_ = 0;
  std::vector<transport::HostBuffer> spare_;  // the one that was kept first comes first
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_BULK_SPARE_MEMORY_H_
