// Memory that calls of a session have used, for its next ones.
//
// The kernel finds and clears every page of new memory, which takes longer than to copy into it.
// The pages of spare memory are the kernel's to take whenever it needs some (MADV_FREE), so they
// count for no budget and no limit of a control group. They go to no other session, whose client
// could then see what was in them. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_BULK_SPARE_MEMORY_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_BULK_SPARE_MEMORY_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

class SpareMemory {
 public:
  // At least so many bytes, more than 0: spare memory that fits, or new memory.
  // RESOURCE_EXHAUSTED if there is none.
  absl::StatusOr<transport::HostBuffer> Take(size_t bytes);

  // Keeps the buffer, in place of the one that was kept first if there are many; or unmaps it,
  // where the kernel cannot take its pages, or the process has a limit on its addresses.
  void Give(transport::HostBuffer buffer);

 private:
  std::vector<transport::HostBuffer> spare_;  // the one that was kept first comes first
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_BULK_SPARE_MEMORY_H_
