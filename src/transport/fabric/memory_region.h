// A buffer and its registration.
//
// The buffer is page-aligned, zero-filled and, unless the fabric wants its pages at registration,
// not populated: pages that no message touches cost no memory. Register and destroy on the driver
// thread; the memory itself may be used from any thread.
//
// Where a peer's kernel reads the source of a write, it looks up one page after the other, which
// takes as long as the copy. Large pages (2 MiB) make that next to nothing, but the first byte in
// one takes all of it. So memory gets them once a good many bytes have been written from it in long
// messages, and not before.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_MEMORY_REGION_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_MEMORY_REGION_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/transport/fabric/domain.h"
#include "src/transport/fabric/endpoint.h"
#include "src/transport/fabric/region_table.h"
#include "src/transport/fabric/registered_bytes.h"

namespace invoker::transport {

// Memory of this process: anonymous, and unmapped by the destructor, or somebody else's, which is
// left as it is.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();

  // `size` in bytes, more than 0. RESOURCE_EXHAUSTED if there is no memory. Any thread.
  static absl::StatusOr<HostBuffer> Allocate(size_t size);

  // Takes `mapped` bytes that have been mapped at `data`: whole pages, of which `size` are used.
  static HostBuffer Own(void* data, size_t size, size_t mapped);

  // Memory that stays the caller's, and outlives the buffer. Of any alignment.
  static HostBuffer Borrow(void* data, size_t size);

  // Gives back the whole pages within [from, to), where `to` is `size` at most: their addresses
  // stay, and read as zero. Nothing happens to what is borrowed.
  void ReleasePages(size_t from, size_t to);

  // Has pages that nobody has touched yet come as large ones.
  void PreferLargePages();

  // Puts the memory around these bytes into large pages now, as far as the buffer covers whole
  // ones. What is in it stays, and may be used meanwhile. For nothing where the kernel cannot or
  // has none left.
  void UseLargePages(size_t offset, size_t bytes);

  // Leaves the memory mapped: the one who noted where it is unmaps it.
  void Forget() && { data_ = nullptr; }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // What is unmapped with it: `size` and more, in whole pages. 0 of what is borrowed.
  size_t mapped() const { return mapped_; }
  bool borrowed() const { return data_ != nullptr && mapped_ == 0; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
};

inline constexpr size_t kLargePageBytes = size_t{2} << 20;

// What a region is for. Rights are the least that it needs.
enum class RegionUse : uint8_t {
  kSource,        // we write or send from it
  kRemoteTarget,  // peers write into it
  kReceive,       // receives are posted into it
  // For transfers without a notification:
  kTransfer,          // we read a peer's memory into it, and write a peer's memory from it
  kRemoteSource,      // peers read it
  kRemoteSink,        // peers write into it
  kRemoteSourceSink,  // both
};

class MemoryRegion {
 public:
  MemoryRegion() = default;

  // Takes the buffer. What no peer has access to is registered only where the fabric needs local
  // registration. `endpoint` is bound to the region where the fabric asks for that, and must then
  // outlive it. Where the fabric wants memory that is there (FI_MR_ALLOCATED), touches every page.
  // UNIMPLEMENTED if the provider gives a key that does not fit in 64 bits.
  static absl::StatusOr<MemoryRegion> Register(const Fabric& fabric, const Domain& domain,
                                               const Endpoint& endpoint, HostBuffer buffer,
                                               RegionUse use);

  // What takes long of Register where the fabric wants memory that is there, by itself: any thread,
  // beforehand. Reads a file if the buffer is one that is mapped.
  static void Prepare(const Profile& profile, const HostBuffer& buffer, RegionUse use);

  std::byte* data() const { return buffer_.data(); }
  size_t size() const { return buffer_.size(); }

  // The region's place among those that messages may name, for as long as it is registered.
  void set_listing(RegionListing listing) { listing_ = std::move(listing); }

  // Says that so many bytes are about to be written from `offset`: every now and then the time has
  // come for large pages. kSource, on the driver thread.
  void NoteWrite(size_t offset, size_t bytes) {
    if (bytes >= long_bytes_) NoteLongWrite(offset, bytes);
  }

  // Calls HostBuffer::ReleasePages.
  void ReleasePages(size_t from, size_t to) { buffer_.ReleasePages(from, to); }

  // Whether peers have been able to write to it.
  bool remotely_writable() const { return remotely_writable_; }

  // Ends the registration and gives the buffer back.
  HostBuffer Close() &&;

  // For posts from this memory; nullptr where none is needed.
  void* descriptor() const { return region_ == nullptr ? nullptr : fi_mr_desc(region_.get()); }

  // What a peer needs to get at it: the key, and the base to which it adds offsets. Only for what
  // peers have access to.
  uint64_t key() const { return key_; }
  uint64_t remote_base() const { return remote_base_; }

 private:
  void NoteLongWrite(size_t offset, size_t bytes);

  // What NoteWrite counts, and how much it has counted: writes of so many bytes and more.
  size_t long_bytes_ = SIZE_MAX;
  uint64_t written_bytes_ = 0;
  std::vector<bool> large_;  // each large page that the region could have: it was asked for

  // The listing goes before the registration, and that before the memory.
  HostBuffer buffer_;
  FidPtr<fid_mr> region_;
  RegisteredBytes registered_;  // region_'s
  uint64_t key_ = 0;
  uint64_t remote_base_ = 0;
  bool remotely_writable_ = false;
  RegionListing listing_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_MEMORY_REGION_H_
