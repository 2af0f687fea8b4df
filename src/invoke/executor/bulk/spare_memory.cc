#include "src/invoke/executor/bulk/spare_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace invoker {
namespace {

// An input and an output of two calls: one that moves while the other one's function runs.
constexpr size_t kMostBuffers = 4;

constexpr int64_t kKeptNs = 1'000'000'000;

// Whether the process has a limit on its addresses, or on what it has mapped for itself.
bool MappingsAreLimited() {
  rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY ||
         getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

absl::StatusOr<transport::HostBuffer> SpareMemory::Take(size_t bytes) {
  // Not much more than is asked for, which could have served a larger call.
  const auto fits = [bytes](const transport::HostBuffer& buffer) {
    return buffer.mapped() >= bytes && buffer.mapped() / 2 <= bytes;
  };
  // The one that was used last is the likeliest to be in the processor's cache.
  const auto found = std::find_if(spare_.rbegin(), spare_.rend(), fits);
  if (found != spare_.rend()) {
    std::byte* const data = found->data();
    const size_t mapped = found->mapped();
    std::move(*found).Forget();
    spare_.erase(std::next(found).base());
    Count();
    return transport::HostBuffer::Own(data, bytes, mapped);
  }
  return transport::HostBuffer::Allocate(bytes);
}

void SpareMemory::Give(transport::HostBuffer buffer, int64_t now_ns) {
  if (MappingsAreLimited()) return;
  if (madvise(buffer.data(), buffer.mapped(), MADV_FREE) != 0) return;
  if (spare_.size() == kMostBuffers) spare_.erase(spare_.begin());
  spare_.push_back(std::move(buffer));
  given_ns_ = now_ns;
  Count();
}

void SpareMemory::ClearIfIdle(int64_t now_ns) {
  if (!spare_.empty() && now_ns - given_ns_ > kKeptNs) Clear();
}

void SpareMemory::Clear() {
  spare_.clear();
  Count();
}

void SpareMemory::Count() {
  const bool keeps = !spare_.empty();
  if (keepers_ == nullptr || keeps == counted_) return;
  counted_ = keeps;
  keepers_->fetch_add(keeps ? 1 : UINT32_MAX, std::memory_order_relaxed);
}

}  // namespace invoker
