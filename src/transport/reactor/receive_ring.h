// The posted receives that messages of peers land in (ring_message.h). Driver thread only.
//
// The ring has memory of its own, apart from every window: a region that backs posted receives
// cannot be closed on some fabrics.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_RECEIVE_RING_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_RECEIVE_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker::transport {

class ReceiveRing {
 public:
  // Posts `buffers` receives of messages of up to `message_bytes`. Close the endpoint first, then
  // the ring; nothing may be called in between.
  static absl::StatusOr<ReceiveRing> Open(const Fabric& fabric, const Domain& domain,
                                          const Endpoint& endpoint, size_t buffers,
                                          size_t message_bytes);

  // The message of `bytes` that a completed receive brought; nothing if the context is not of this
  // ring or the length cannot be. It stands until the Recycle of the same context.
  std::optional<absl::Span<const std::byte>> Find(void* context, size_t bytes) const;

  // Posts again the buffer of a receive that has been read or that failed. False if `context` is
  // not of this ring.
  bool Recycle(void* context);

  // Retries the receives that could not be posted again at once. Cheap when there are none.
  void Replenish();

 private:
  struct Slot {
    fi_context2 context;
  };

  ReceiveRing(const Endpoint& endpoint, MemoryRegion memory, size_t buffers, size_t stride);

  std::optional<size_t> IndexOf(void* context) const;
  int Post(size_t index);

  fid_ep* endpoint_;
  MemoryRegion memory_;
  size_t count_;
  size_t stride_;  // bytes of a buffer
  std::unique_ptr<Slot[]> slots_;
  std::vector<size_t> unposted_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_RECEIVE_RING_H_
