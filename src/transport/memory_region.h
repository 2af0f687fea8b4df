// A buffer and its registration.
//
// The buffer is page-aligned, zero-filled and, unless the fabric wants its pages at registration,
// not populated: pages that no message touches cost no memory. Register and destroy on the driver
// thread; the memory itself may be used from any thread.

#ifndef INVOKER_SRC_TRANSPORT_MEMORY_REGION_H_
#define INVOKER_SRC_TRANSPORT_MEMORY_REGION_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "src/transport/domain.h"
#include "src/transport/endpoint.h"
#include "src/transport/region_table.h"

namespace invoker::transport {

// Anonymous memory of this process, unmapped by the destructor.
class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  ~HostBuffer();

  // `size` in bytes, more than 0. RESOURCE_EXHAUSTED if there is no memory. Any thread.
  static absl::StatusOr<HostBuffer> Allocate(size_t size);

  // Gives the pages back; the addresses stay, and read as zero.
  void Discard();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// What a region is for. Rights are the least that it needs.
enum class RegionUse : uint8_t {
  kSource,        // we write or send from it
  kRemoteTarget,  // peers write into it
  kReceive,       // receives are posted into it
};

class MemoryRegion {
 public:
  MemoryRegion() = default;

  // Takes the buffer. A kSource or kReceive buffer is registered only where the fabric needs local
  // registration. `endpoint` is bound to the region where the fabric asks for that, and must then
  // outlive it. Where the fabric wants memory that is there (FI_MR_ALLOCATED), touches every page.
  // UNIMPLEMENTED if the provider gives a key that does not fit in 64 bits.
  static absl::StatusOr<MemoryRegion> Register(const Fabric& fabric, const Domain& domain,
                                               const Endpoint& endpoint, HostBuffer buffer,
                                               RegionUse use);

  std::byte* data() const { return buffer_.data(); }
  size_t size() const { return buffer_.size(); }

  // The region's place among those that messages may name, for as long as it is registered.
  void set_listing(RegionListing listing) { listing_ = std::move(listing); }

  // Gives the pages back, as HostBuffer::Discard.
  void Discard() { buffer_.Discard(); }

  // Ends the registration and gives the buffer back.
  HostBuffer Close() &&;

  // For posts from this memory; nullptr where none is needed.
  void* descriptor() const { return region_ == nullptr ? nullptr : fi_mr_desc(region_.get()); }

  // What a peer needs to write here: the key, and the base to which it adds offsets. Only for
  // kRemoteTarget.
  uint64_t key() const { return key_; }
  uint64_t remote_base() const { return remote_base_; }

 private:
  // The listing goes before the registration, and that before the memory.
  HostBuffer buffer_;
  FidPtr<fid_mr> region_;
  uint64_t key_ = 0;
  uint64_t remote_base_ = 0;
  RegionListing listing_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_MEMORY_REGION_H_
