#include "src/invoke/session/call_meters.h"

#include <algorithm>
#include <cstring>

#include "src/base/latency_histogram.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

CallMeters::Counts* CallMeters::Add(uint16_t function) {
  if (function >= functions_.size()) functions_.resize(function + size_t{1});
  functions_[function] = std::make_unique<Counts>();
  return functions_[function].get();
}

void CallMeters::BeginRare(const CallRequest& request, Call* call) {
  BulkDescriptor descriptor;
  if (request.kind != MessageKind::kRequest || (request.flags & kStore) != 0) {
    call->counts = &uncounted_;
  } else if (request.input.size() >= kBulkDescriptorBytes &&
             DecodeBulkDescriptor(request.input.data(), &descriptor)) {
    call->memory_capacity = descriptor.output_capacity;
    const uint64_t beside = request.input.size() - kBulkDescriptorBytes;
    BeginCounted(request.function_id, beside + descriptor.input_length, call);
  } else {
    BeginCounted(request.function_id, request.input.size(), call);
  }
}

void CallMeters::EndBulk(const Call& call, const std::byte* payload) {
  uint64_t bytes = call.payload_bytes;
  if (call.memory_capacity != 0 && bytes == kBulkResultBytes) {
    memcpy(&bytes, payload, sizeof(bytes));
    bytes = std::min(bytes, call.memory_capacity);
  }
  EndCounted(call, bytes);
}

void CallMeters::BeginTimed(const Call* call) {
  // While one takes long, others wait for their turn.
  until_timed_ = timed_ == nullptr ? kTimedOneIn : 1;
  if (timed_ != nullptr) return;
  timed_ = call;
  timed_since_ns_ = transport::MonotonicNs();
}

void CallMeters::EndTimed(const Call& call) {
  timed_ = nullptr;
  const auto ns = static_cast<uint64_t>(transport::MonotonicNs() - timed_since_ns_);
  ++call.counts->time.counts[LatencyBuckets::Of(ns)];
  call.counts->time.sum_ns += ns;
}

}  // namespace invoker
