#include "src/transport/reactor/quarantine.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker::transport {
namespace {

// What one page of page-table entries maps. The kernel gives it back once all of that is mapped
// anew together.
constexpr uintptr_t kTableBytes = kLargePageBytes;

constexpr int kRangesPerRelease = 64;
// The kernel looks at each page of entries that there has been: those of 8,192 windows of 2 MiB in
// less than 100 us.
constexpr uint64_t kBytesPerRelease = uint64_t{16} << 30;

void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Quarantine::~Quarantine() {
  for (const auto& [begin, end] : ranges_) munmap(At(begin), end - begin);
  const uint64_t bytes = std::exchange(bytes_, 0);
  const size_t ranges = ranges_.size();
  ranges_.clear();
  Count(bytes, ranges);
}

// Wraps where it has become less.
void Quarantine::Count(uint64_t bytes_before, size_t ranges_before) {
  if (total_ == nullptr) return;
  total_->bytes_.fetch_add(bytes_ - bytes_before, std::memory_order_relaxed);
  total_->ranges_.fetch_add(ranges_.size() - ranges_before, std::memory_order_relaxed);
}

absl::Status Quarantine::HasRoom() const {
  constexpr absl::string_view kWhy =
      " places, because peers of former sessions may still write to them, and can keep no more";
  if (full()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the endpoint keeps ", bytes_, " bytes of addresses in ", ranges_.size(), kWhy));
  }
  if (total_full()) {
    return absl::ResourceExhaustedError(absl::StrCat("the endpoints of this process together keep ",
                                                     total_->bytes(), " bytes of addresses in ",
                                                     total_->ranges(), kWhy));
  }
  return absl::OkStatus();
}

void Quarantine::Take(HostBuffer buffer) {
  if (buffer.data() == nullptr || buffer.borrowed()) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(buffer.data());
  const uintptr_t end = begin + buffer.mapped();
  std::move(buffer).Forget();
  const uint64_t bytes_before = bytes_;
  const size_t ranges_before = ranges_.size();
  bytes_ += end - begin;

  uintptr_t run_begin = begin;
  uintptr_t run_end = end;
  auto after = ranges_.lower_bound(begin);
  if (after != ranges_.end() && after->first == end) {
    run_end = after->second;
    after = ranges_.erase(after);
  }
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    if (before->second == begin) {
      run_begin = before->first;
      ranges_.erase(before);
    }
  }
  ranges_.emplace(run_begin, run_end);
  Count(bytes_before, ranges_before);

  // Mapped anew, in one step, so that neighbours become one mapping of the kernel's, and so that
  // nobody else gets the addresses meanwhile.
  const uintptr_t table_begin = begin / kTableBytes * kTableBytes;
  const uintptr_t table_end = (end + kTableBytes - 1) / kTableBytes * kTableBytes;
  const uintptr_t from = table_begin >= run_begin ? table_begin : begin;
  const uintptr_t to = table_end <= run_end ? table_end : end;
  const void* mapped = mmap(At(from), to - from, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  // Unchanged it serves too: it only takes a mapping of its own.
  if (mapped == MAP_FAILED) madvise(At(begin), end - begin, MADV_DONTNEED);
}

void Quarantine::ReleasePages() {
  uint64_t left = kBytesPerRelease;
  for (int i = 0; i < kRangesPerRelease && left > 0 && !ranges_.empty(); ++i) {
    // The range that ends behind what was discarded last.
    auto next = ranges_.upper_bound(released_up_to_);
    if (next != ranges_.begin() && std::prev(next)->second > released_up_to_) --next;
    if (next == ranges_.end()) {
      released_up_to_ = 0;
      return;
    }
    const uintptr_t from = std::max(next->first, released_up_to_);
    const uint64_t bytes = std::min<uint64_t>(next->second - from, left);
    madvise(At(from), bytes, MADV_DONTNEED);
    left -= bytes;
    released_up_to_ = from + bytes;
  }
}

}  // namespace invoker::transport
