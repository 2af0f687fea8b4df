#include "src/invoke/executor/deferred/deferred_call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/invoke/executor/deferred/deferred_call_set.h"
#include "src/invoke/executor/usage_meter.h"

namespace invoker {
namespace {

// What the request's own buffers are aligned to at least.
constexpr size_t kAlignment = 64;

// nullptr if there is no memory.
std::byte* Allocate(uint64_t size) {
  const uint64_t rounded =
      std::max<uint64_t>((size + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  return static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
}

}  // namespace

const invoker_services DeferredCall::kServices = {
    sizeof(invoker_services),
    0,
    [](const invoker_call* call) -> int32_t {
      const DeferredCall* deferred = Of(call);
      return deferred->cancelled() || deferred->Overdue(transport::MonotonicNs()) ? 1 : 0;
    },
    [](const invoker_call* call, invoker_call_facts* facts) { Of(call)->Describe(facts); },
    [](invoker_call* call) { return call; },
    [](invoker_call* call, int64_t returned) { Of(call)->Complete(returned); },
    [](const invoker_call* call, const uint8_t* reference, invoker_stored_data* found) -> int32_t {
      return Of(call)->FindData(reference, found) ? 0 : INVOKER_FAILED;
    },
    [](invoker_call* call) { Of(call)->answer_.tells_of_failure = true; },
};

DeferredCall::DeferredCall(std::shared_ptr<DeferredCallSet> calls, Facts facts)
    : calls_(std::move(calls)), facts_(std::move(facts)) {}

std::shared_ptr<DeferredCall> DeferredCall::Make(std::shared_ptr<DeferredCallSet> calls,
                                                 const invoker_call& call, Facts facts) {
  std::shared_ptr<DeferredCall> deferred(new DeferredCall(std::move(calls), std::move(facts)));
  deferred->input_.reset(Allocate(call.input_size));
  deferred->output_.reset(Allocate(call.output_capacity));
  if (deferred->input_ == nullptr || deferred->output_ == nullptr) return nullptr;
  if (call.input_size != 0) std::memcpy(deferred->input_.get(), call.input, call.input_size);
  deferred->input_size_ = call.input_size;
  deferred->output_capacity_ = call.output_capacity;
  invoker_call& own = deferred->call_;
  own.struct_size = sizeof(own);
  own.context = call.context;
  own.input = deferred->input_.get();
  own.input_size = call.input_size;
  own.output = deferred->output_.get();
  own.output_capacity = call.output_capacity;
  own.error = deferred->error_.data();
  own.error_capacity = deferred->error_.size();
  own.services = &kServices;
  own.worker = deferred.get();
  deferred->began_ticks_ = ReadTicks();
  deferred->calls_->Add(deferred);
  return deferred;
}

void DeferredCall::Begin(bool on_own_thread) {
  if (on_own_thread) {
    on_own_thread_ = true;
    began_ticks_ = ReadTicks();
  }
  calls_->Begin(this);
}

void DeferredCall::Complete(int64_t returned) {
  answer_.returned = returned;
  End();
}

void DeferredCall::Refuse(StatusCode status, std::string reason) {
  answer_.refusal = status;
  answer_.reason = std::move(reason);
  End();
}

void DeferredCall::End() {
  answer_.ticks = ReadTicks() - began_ticks_;
  // May be the last that refers to them.
  const std::shared_ptr<DeferredCallSet> calls = calls_;
  calls->Completed(this);
}

bool DeferredCall::FindData(const uint8_t* reference, invoker_stored_data* found) {
  std::shared_ptr<const StoredData> data = invoker::FindData(facts_.store.get(), reference, found);
  if (data == nullptr) return false;
  absl::MutexLock lock(&found_mutex_);
  found_.push_back(std::move(data));
  return true;
}

void DeferredCall::Describe(invoker_call_facts* facts) const {
  facts->tenant = facts_.tenant.c_str();
  facts->call_id = facts_.call_id.c_str();
  facts->remaining_ns =
      facts_.deadline_ns == 0 ? INVOKER_NO_DEADLINE : facts_.deadline_ns - transport::MonotonicNs();
}

}  // namespace invoker
