#include "src/transport/fabric/memory_region.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/transport/base/status.h"

namespace invoker::transport {
namespace {

// Two random keys of a 4-byte key space collide once in billions of registrations; a few tries
// settle it.
constexpr int kKeyAttempts = 8;

absl::StatusOr<uint64_t> RandomKey(size_t key_bytes) {
  const absl::StatusOr<uint64_t> key = DrawRandom();
  if (!key.ok() || key_bytes >= 8) return key;
  return *key & ((uint64_t{1} << (8 * key_bytes)) - 1);
}

// Shorter messages gain less than they would cost others, and are read in one or a few pieces.
constexpr size_t kLongWrite = 12288;

// How much is written from a region in long messages before it gets large pages.
constexpr uint64_t kWrittenBeforeLargePages = 4 * kLargePageBytes;

// Linux 6.1's; Debian 12's C library has no name for it.
constexpr int kMadviseCollapse = 25;

// A provider may place a peer's write as a local one: some releases read the data from the peer
// where the card cannot write (docs/design/libfabric.md). So each region for writes also has local
// access (FI_RECV).
uint64_t AccessOf(RegionUse use) {
  switch (use) {
    case RegionUse::kSource:
      return FI_SEND | FI_WRITE;
    case RegionUse::kRemoteTarget:
    case RegionUse::kRemoteSink:
      return FI_RECV | FI_REMOTE_WRITE;
    case RegionUse::kReceive:
      return FI_RECV;
    case RegionUse::kTransfer:
      return FI_READ | FI_WRITE;
    case RegionUse::kRemoteSource:
      return FI_REMOTE_READ;
    case RegionUse::kRemoteSourceSink:
      return FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
  }
  return 0;
}

bool IsRemote(RegionUse use) { return (AccessOf(use) & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0; }

// Has every page backed by memory now, with what is in it. Touched and not asked for by madvise,
// which kernels before 5.14 lack. What is only read may be mapped so that it cannot be written;
// other threads may be writing to the rest.
void Populate(std::byte* data, size_t size, RegionUse use) {
  const auto touch = [use](std::byte* at) {
    if (use == RegionUse::kRemoteSource) {
      static_cast<void>(*static_cast<volatile std::byte*>(at));
    } else {
      __atomic_fetch_or(reinterpret_cast<uint8_t*>(at), 0, __ATOMIC_RELAXED);
    }
  };
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t offset = 0; offset < size; offset += page) touch(data + offset);
  touch(data + size - 1);
}

// At `wanted` if there is room.
void* Map(size_t size, void* wanted = nullptr) {
  return mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// The error of a registration that failed.
absl::Status NotRegistered(size_t bytes, int code) {
  const absl::Status status = ToStatus(absl::StrCat("fi_mr_reg of ", bytes, " bytes"), code);
  rlimit limit;
  if (code != -FI_ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return status;
  }
  return absl::Status(status.code(),
                      absl::StrCat(status.message(),
                                   ". A fabric that pins memory needs as much of the limit on "
                                   "locked memory, which is ",
                                   limit.rlim_cur,
                                   " bytes here (ulimit -l, "
                                   "LimitMEMLOCK= of a service, /etc/security/limits.conf)"));
}

// What a registration needs before it can be used, and its key. On an error the caller closes the
// region.
absl::StatusOr<uint64_t> Enable(const Profile& profile, const Endpoint& endpoint, RegionUse use,
                                bool for_events, fid_mr* region) {
  if (profile.bind_region_to_endpoint) {
    const int code = fi_mr_bind(region, &endpoint.get()->fid, 0);
    if (code != 0) return ToStatus("fi_mr_bind of the endpoint", code);
  }
  if (profile.bind_region_to_endpoint || for_events) {
    const int code = fi_mr_enable(region);
    if (code != 0) return ToStatus("fi_mr_enable", code);
  }
  const uint64_t key = fi_mr_key(region);
  if (key == FI_KEY_NOTAVAIL && IsRemote(use)) {
    return absl::UnimplementedError(
        absl::StrCat("fi_mr_key: provider ", profile.provider,
                     " has no 64-bit key for this memory (a raw key, as fi_mr_raw_attr gives), and "
                     "Invoker exchanges 64-bit keys only"));
  }
  return key;
}

}  // namespace

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr && !borrowed()) munmap(data_, mapped_);
}

absl::StatusOr<HostBuffer> HostBuffer::Allocate(size_t size) {
  // What could have large pages begins where one does. If possible where the kernel has room
  // anyway, or just below, so that no gaps are left. Else more is mapped, and the rest unmapped.
  const auto misses = [size](const void* memory) {
    return memory != MAP_FAILED && size >= kLargePageBytes
               ? reinterpret_cast<uintptr_t>(memory) % kLargePageBytes
               : 0;
  };
  size_t spare = 0;
  void* memory = Map(size);
  if (const uintptr_t by = misses(memory); by != 0) {
    munmap(memory, size);
    memory = Map(size, static_cast<std::byte*>(memory) - by);
  }
  if (misses(memory) != 0) {
    munmap(memory, size);
    spare = kLargePageBytes;
    memory = Map(size + spare);
  }
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", size, " bytes of memory: ", strerror(errno)));
  }
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t in_pages = (size + page - 1) / page * page;
  std::byte* data = static_cast<std::byte*>(memory);
  if (spare > 0) {
    // The last place that fits: the kernel places what is mapped next below it.
    const uintptr_t last = reinterpret_cast<uintptr_t>(memory) + spare;
    const size_t begin = spare - last % kLargePageBytes;
    const size_t end = begin + in_pages;
    const size_t mapped_end = spare + in_pages;
    if (begin > 0) munmap(data, begin);
    if (mapped_end > end) munmap(data + end, mapped_end - end);
    data += begin;
  }
  return Own(data, size, in_pages);
}

HostBuffer HostBuffer::Own(void* data, size_t size, size_t mapped) {
  HostBuffer buffer;
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = size;
  buffer.mapped_ = mapped;
  return buffer;
}

HostBuffer HostBuffer::Borrow(void* data, size_t size) {
  HostBuffer buffer;
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = size;
  return buffer;
}

void HostBuffer::PreferLargePages() {
  if (data_ != nullptr && !borrowed()) madvise(data_, size_, MADV_HUGEPAGE);
}

void HostBuffer::UseLargePages(size_t offset, size_t bytes) {
  const uintptr_t base = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t whole_begin = (base + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
  const uintptr_t whole_end = (base + size_) / kLargePageBytes * kLargePageBytes;
  const uintptr_t begin =
      std::max(whole_begin, (base + offset) / kLargePageBytes * kLargePageBytes);
  const uintptr_t end = std::min(
      whole_end, (base + offset + bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes);
  if (begin >= end) return;
  void* const memory = reinterpret_cast<void*>(begin);
  // For pages that nobody has touched yet; and for those that are there, which older kernels get to
  // by themselves in time.
  madvise(memory, end - begin, MADV_HUGEPAGE);
  madvise(memory, end - begin, kMadviseCollapse);
}

void HostBuffer::ReleasePages(size_t from, size_t to) {
  if (data_ == nullptr || borrowed()) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = (from + page - 1) / page * page;
  const size_t last = to == size_ ? mapped_ : to / page * page;
  if (first < last) madvise(data_ + first, last - first, MADV_DONTNEED);
}

// A page that the kernel did not give is not asked for again: asking takes long.
void MemoryRegion::NoteLongWrite(size_t offset, size_t bytes) {
  written_bytes_ += bytes;
  if (written_bytes_ < kWrittenBeforeLargePages) return;
  for (size_t page = offset / kLargePageBytes; page <= (offset + bytes - 1) / kLargePageBytes;
       ++page) {
    if (large_[page]) continue;
    large_[page] = true;
    buffer_.UseLargePages(page * kLargePageBytes, 1);
  }
}

HostBuffer MemoryRegion::Close() && {
  listing_ = RegionListing();
  region_.reset();
  registered_ = RegisteredBytes();
  return std::move(buffer_);
}

void MemoryRegion::Prepare(const Profile& profile, const HostBuffer& buffer, RegionUse use) {
  if (profile.populate_regions) Populate(buffer.data(), buffer.size(), use);
}

absl::StatusOr<MemoryRegion> MemoryRegion::Register(const Fabric& fabric, const Domain& domain,
                                                    const Endpoint& endpoint, HostBuffer buffer,
                                                    RegionUse use) {
  const Profile& profile = fabric.profile();
  MemoryRegion result;
  result.buffer_ = std::move(buffer);
  if (profile.large_source_pages && use == RegionUse::kSource && result.size() >= kLargePageBytes) {
    result.long_bytes_ = kLongWrite;
    result.large_.resize((result.size() + kLargePageBytes - 1) / kLargePageBytes);
  }
  if (!IsRemote(use) && !profile.local_registration) return result;

  Prepare(profile, result.buffer_, use);
  const bool for_events = profile.bind_region_for_events && use == RegionUse::kRemoteTarget;
  fid_mr* raw = nullptr;
  int code = 0;
  for (int attempt = 0; attempt < kKeyAttempts; ++attempt) {
    uint64_t key = 0;
    if (profile.keys == KeyPolicy::kRandom) {
      absl::StatusOr<uint64_t> random = RandomKey(profile.key_bytes);
      if (!random.ok()) return random.status();
      key = *random;
    }
    code = fi_mr_reg(domain.get(), result.data(), result.size(), AccessOf(use), 0, key,
                     for_events ? FI_RMA_EVENT : 0, &raw, nullptr);
    if (code != -FI_ENOKEY || profile.keys != KeyPolicy::kRandom) break;
  }
  if (code != 0) return NotRegistered(result.size(), code);
  result.region_.reset(raw);
  result.registered_ = RegisteredBytes(result.size());
  absl::StatusOr<uint64_t> key = Enable(profile, endpoint, use, for_events, raw);
  if (!key.ok()) return key.status();
  result.key_ = *key;
  result.remotely_writable_ = (AccessOf(use) & FI_REMOTE_WRITE) != 0;
  result.remote_base_ =
      profile.addressing == Addressing::kVirtual ? reinterpret_cast<uintptr_t>(result.data()) : 0;
  return result;
}

}  // namespace invoker::transport
