#include "src/invoke/executor/session/call_control.h"

#include <cinttypes>
#include <cstdio>

#include "src/invoke/wire/wire.h"

namespace invoker {
namespace {

// The provider is let work once in so long: on fabrics that move bytes only when they are called,
// the client's mark arrives no other way while the function runs.
constexpr int64_t kWorkEveryNs = 20'000;

}  // namespace

bool IsMarkedCancelled(const std::byte* flags) {
  // The peer writes it behind the compiler's back.
  const auto value = *reinterpret_cast<const volatile uint8_t*>(flags);
  return (value & kCancelled) != 0;
}

bool CallControl::Cancelled() {
  if (flags_ == nullptr) return false;
  const int64_t now_ns = transport::MonotonicNs();
  if (deadline_ns_ != 0 && now_ns > deadline_ns_) return true;
  if (now_ns >= next_work_ns_ && reactor_ != nullptr) {
    reactor_->LetProviderWork();
    next_work_ns_ = now_ns + kWorkEveryNs;
  }
  return IsMarkedCancelled(flags_);
}

uint64_t CallControl::Sequence() const {
  return flags_ == nullptr ? 0 : HeaderSnapshot::Take(flags_ - kFlagsOffset).sequence();
}

void CallControl::Describe(invoker_call_facts* facts) {
  facts->tenant = tenant_.c_str();
  facts->remaining_ns =
      deadline_ns_ == 0 ? INVOKER_NO_DEADLINE : deadline_ns_ - transport::MonotonicNs();
  std::snprintf(call_id_.data(), call_id_.size(), "%08" PRIx32 "-%" PRIu64, epoch_, Sequence());
  facts->call_id = call_id_.data();
}

invoker_call* CallControl::Defer(const invoker_call& call) {
  const uint64_t left = most_deferred_bytes_ - deferred_bytes_;
  if (deferred_calls_ == nullptr || call.input_size > left ||
      call.output_capacity > left - call.input_size) {
    return nullptr;
  }
  // The last one's function has deferred it, and has then returned something else.
  if (deferred_ != nullptr) FreeRoom(*std::exchange(deferred_, nullptr));
  invoker_call_facts facts;
  Describe(&facts);
  deferred_ = DeferredCall::Make(deferred_calls_->shared_from_this(), call,
                                 {tenant_, facts.call_id, Sequence(), deadline_ns_, store_});
  if (deferred_ == nullptr) return nullptr;
  deferred_bytes_ += call.input_size + call.output_capacity;
  return deferred_->call();
}

void CallControl::FreeRoom(const DeferredCall& call) {
  deferred_bytes_ -= call.input_size() + call.output().size();
}

const invoker_services kCallServices = {
    sizeof(invoker_services),
    0,
    [](const invoker_call* call) -> int32_t {
      return static_cast<CallControl*>(call->worker)->Cancelled() ? 1 : 0;
    },
    [](const invoker_call* call, invoker_call_facts* facts) {
      static_cast<CallControl*>(call->worker)->Describe(facts);
    },
    [](invoker_call* call) { return static_cast<CallControl*>(call->worker)->Defer(*call); },
    // No call of this kind has been deferred.
    [](invoker_call*, int64_t) {},
    [](const invoker_call* call, const uint8_t* reference, invoker_stored_data* found) -> int32_t {
      const bool is_there = static_cast<CallControl*>(call->worker)->FindData(reference, found);
      return is_there ? 0 : INVOKER_FAILED;
    },
    [](invoker_call* call) { static_cast<CallControl*>(call->worker)->CountFailure(); },
};

}  // namespace invoker
