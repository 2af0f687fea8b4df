// What peers send to an endpoint's receive ring (ring_message.h): each message is checked, and
// takes effect or is dropped. Driver thread only, but for the awaited check.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_MESSAGE_RECEIVER_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_MESSAGE_RECEIVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "src/transport/fabric/region_table.h"
#include "src/transport/reactor/reactor_counters.h"
#include "src/transport/reactor/receive_ring.h"

namespace invoker::transport {

class MessageReceiver {
 public:
  void set_ring(ReceiveRing ring) { ring_ = std::move(ring); }
  // The memory that messages may name.
  RegionTable& regions() { return regions_; }

  // A receive of `bytes` has completed. Returns the token to be told, if there is one. The buffer
  // is free again: the handler may take long, and others' messages need it.
  std::optional<uint32_t> TakeReceive(void* context, size_t bytes, ReactorCounters* counters);
  // Carries out one message.
  std::optional<uint32_t> TakeMessage(absl::Span<const std::byte> message,
                                      ReactorCounters* counters);
  // A receive has failed. False if `context` is not of the ring.
  bool TakeFailure(void* context) { return ring_->Recycle(context); }
  void Replenish() { ring_->Replenish(); }

  // Any thread. The check with this nonce is awaited, and no other; 0: none.
  void ExpectCheck(uint64_t nonce) { awaited_check_.store(nonce); }
  bool awaits_check() const { return awaited_check_.load() != 0; }

 private:
  RegionTable regions_;
  std::optional<ReceiveRing> ring_;
  std::atomic<uint64_t> awaited_check_{0};
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_MESSAGE_RECEIVER_H_
