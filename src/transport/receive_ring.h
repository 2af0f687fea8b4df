// The posted receives that send-after-write's tokens land in. Driver thread only.
//
// The ring has memory of its own, apart from every window: a region that backs posted receives
// cannot be closed on some fabrics.

#ifndef INVOKER_SRC_TRANSPORT_RECEIVE_RING_H_
#define INVOKER_SRC_TRANSPORT_RECEIVE_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "src/transport/memory_region.h"

namespace invoker::transport {

class ReceiveRing {
 public:
  // Posts `buffers` receives. Close the endpoint first, then the ring; nothing may be called in
  // between.
  static absl::StatusOr<ReceiveRing> Open(const Fabric& fabric, const Domain& domain,
                                          const Endpoint& endpoint, size_t buffers);

  // The token that a completed receive of `bytes` brought, or nothing if it is not one (a foreign
  // or damaged message). The buffer is posted again in either case.
  std::optional<uint32_t> Take(void* context, size_t bytes);

  // Posts again the buffer of a receive that failed. False if `context` is not of this ring.
  bool Recycle(void* context);

  // Retries the receives that could not be posted again at once. Cheap when there are none.
  void Replenish();

 private:
  struct Slot {
    fi_context2 context;
  };

  ReceiveRing(const Endpoint& endpoint, MemoryRegion memory, size_t buffers);

  std::optional<size_t> IndexOf(void* context) const;
  int Post(size_t index);

  fid_ep* endpoint_;
  MemoryRegion memory_;
  size_t count_;
  std::unique_ptr<Slot[]> slots_;
  std::vector<size_t> unposted_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_RECEIVE_RING_H_
