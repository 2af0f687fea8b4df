#include "src/invoke/executor/bulk/spare_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace invoker {
namespace {

// An input and an output of two calls: one that moves while the other one's function runs.
constexpr size_t kMostBuffers = 4;

bool AddressesAreLimited() {
  rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

absl::StatusOr<transport::HostBuffer> SpareMemory::Take(size_t bytes) {
  // Much more than is asked for would be registered for nothing.
  const auto fits = [bytes](const transport::HostBuffer& buffer) {
    return buffer.size() >= bytes && buffer.size() / 2 <= bytes;
  };
  // The one that was used last is the likeliest to be in the processor's cache.
  const auto found = std::find_if(spare_.rbegin(), spare_.rend(), fits);
  if (found != spare_.rend()) {
    transport::HostBuffer buffer = std::move(*found);
    spare_.erase(std::next(found).base());
    return buffer;
  }
  absl::StatusOr<transport::HostBuffer> buffer = transport::HostBuffer::Allocate(bytes);
  if (buffer.ok()) buffer->PreferLargePages();
  return buffer;
}

void SpareMemory::Give(transport::HostBuffer buffer) {
  if (AddressesAreLimited()) return;
  if (madvise(buffer.data(), buffer.mapped(), MADV_FREE) != 0) return;
  if (spare_.size() == kMostBuffers) spare_.erase(spare_.begin());
  spare_.push_back(std::move(buffer));
}

}  // namespace invoker
