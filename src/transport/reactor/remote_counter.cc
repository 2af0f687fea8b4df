#include "src/transport/reactor/remote_counter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {

absl::StatusOr<CounterArray> CounterArray::Open(Reactor* reactor, uint32_t counters) {
  return Open(reactor, counters,
              reactor->native_atomics() ? AddMethod::kNative : AddMethod::kMessage);
}

absl::StatusOr<CounterArray> CounterArray::Open(Reactor* reactor, uint32_t counters,
                                                AddMethod method) {
  if (counters == 0) return absl::InvalidArgumentError("an array of no counters");
  absl::StatusOr<HostBuffer> memory = reactor->AllocateTarget(counters * kCounterBytes);
  if (!memory.ok()) return memory.status();
  CounterArray array(reactor, {method, 0, 0, counters});
  if (method == AddMethod::kNative) {
    if (!reactor->native_atomics()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "provider ", reactor->profile().provider, " adds no 64-bit numbers in a peer's memory"));
    }
    absl::StatusOr<MemoryRegion> region =
        reactor->Register(*std::move(memory), RegionUse::kRemoteTarget);
    if (!region.ok()) return region.status();
    array.region_ = *std::move(region);
    array.descriptor_.base = array.region_.remote_base();
    array.descriptor_.key = array.region_.key();
    return array;
  }
  const absl::StatusOr<uint64_t> key = DrawRandom();
  if (!key.ok()) return key.status();
  array.memory_ = *std::move(memory);
  absl::StatusOr<RegionListing> listing = reactor->regions().Insert(
      *key, array.memory_.data(), array.memory_.size(), RegionRole::kCounters);
  if (!listing.ok()) return listing.status();
  array.listing_ = *std::move(listing);
  array.descriptor_.key = *key;
  return array;
}

CounterArray::~CounterArray() {
  // The fabric may still be adding.
  if (region_.data() != nullptr) reactor_->Retire(std::move(region_));
}

uint64_t CounterArray::Read(uint32_t index) const {
  const std::byte* data = region_.data() != nullptr ? region_.data() : memory_.data();
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(data) + index, __ATOMIC_ACQUIRE);
}

}  // namespace invoker::transport
