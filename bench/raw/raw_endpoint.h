// A plain libfabric endpoint with one window, for baselines: no code of Invoker's. Written the way
// that a careful programmer writes an fi_writedata program by hand: one endpoint, one queue of
// FI_CQ_FORMAT_DATA without a wait object, one registered buffer, busy polling.

#ifndef INVOKER_BENCH_RAW_RAW_ENDPOINT_H_
#define INVOKER_BENCH_RAW_RAW_ENDPOINT_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace invoker::bench {

// Window offsets, with `bytes` rounded up to whole pages: [0, bytes) is written by the peer,
// [bytes, 2*bytes) is what we write from. Both are backed by memory from the start, and the source
// has been written. One thread.
class RawEndpoint {
 public:
  // `bytes` is the largest message.
  static absl::StatusOr<std::unique_ptr<RawEndpoint>> Open(const std::string& provider,
                                                           const std::string& address,
                                                           size_t bytes);
  ~RawEndpoint();
  RawEndpoint(const RawEndpoint&) = delete;
  RawEndpoint& operator=(const RawEndpoint&) = delete;

  // One line of text with the endpoint's address, the window's base and its key; what the peer
  // says.
  std::string Describe() const;
  absl::Status Meet(absl::string_view peer_description);

  // fi_writedata from the start of our source to the start of the peer's target; polls while the
  // provider says -FI_EAGAIN.
  absl::Status Write(size_t bytes, uint32_t data);

  // Polls until the next fi_writedata of the peer has come, and returns its data. Completions of
  // our own writes are taken on the way. Fails after ten seconds, which are looked at now and then.
  absl::StatusOr<uint32_t> Await();

  // Polls until all of our own writes have completed. What the peer wrote meanwhile is kept for
  // Await.
  absl::Status Drain();

  // For many messages in flight. Without waiting: fi_writedata from `offset` in our source to the
  // same offset of the peer's target; false if the provider takes none now.
  absl::StatusOr<bool> TryWrite(size_t offset, size_t bytes, uint32_t data);
  // Reads the queue once, and takes the data of writes of the peer's that have come. How many.
  absl::StatusOr<size_t> TakeArrived(absl::Span<uint32_t> data);
  // Writes of ours that have not completed yet.
  size_t outstanding() const { return contexts_.size() - free_contexts_.size(); }

  // Bytes that a message may have.
  size_t capacity() const { return bytes_; }
  // What the peer has written into.
  const std::byte* target() const { return memory_; }
  // What the next Write takes. Not to be changed while a write is under way.
  std::byte* source() { return memory_ + bytes_; }

 private:
  template <typename Fid>
  struct CloseFid {
    void operator()(Fid* object) const { fi_close(&object->fid); }
  };
  template <typename Fid>
  using Owned = std::unique_ptr<Fid, CloseFid<Fid>>;
  struct FreeInfo {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
  };

  // Completions read at once.
  static constexpr size_t kBatch = 16;
  // Turns without anything between two looks at the clock.
  static constexpr uint32_t kTurnsPerLook = 1 << 16;

  RawEndpoint() = default;

  absl::Status OpenObjects(const std::string& provider, const std::string& address);
  absl::Status OpenEndpoint();
  absl::Status Register();

  // One look at the queue; `turns` counts those that found nothing.
  absl::Status Poll(uint32_t* turns, int64_t* give_up_ns);
  absl::Status Empty(ssize_t code, uint32_t* turns, int64_t* give_up_ns);

  std::string provider_;
  // In the order in which they are opened; closed in the reverse.
  std::unique_ptr<fi_info, FreeInfo> info_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_av> av_;
  Owned<fid_cq> cq_;
  Owned<fid_ep> endpoint_;
  Owned<fid_mr> region_;
  void* descriptor_ = nullptr;

  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<fi_context2> contexts_;
  std::vector<void*> free_contexts_;  // all of them when no write is under way
  std::vector<uint32_t> arrived_;
  size_t next_arrived_ = 0;

  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  uint64_t peer_base_ = 0;
  uint64_t peer_key_ = 0;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_RAW_RAW_ENDPOINT_H_
