// ExecutorSession: requests whose input or output lies in registered windows of the client.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "src/base/fork_guard.h"
#include "src/invoke/executor/session/executor_session.h"

namespace invoker {

// What is refused is so before anything is read.
void ExecutorSession::StartBulk(const RequestHeader& header, const std::byte* payload,
                                uint32_t cell) {
  if (parts_.draining->load(std::memory_order_relaxed)) {
    return Refuse(header, StatusCode::kDraining, kTakesNoMoreCalls);
  }
  if (FindFunction(header.function_id) == nullptr) return RefuseUnknown(header);
  if (windows_ == nullptr) {
    Drop(&DropCounters::invalid_request);
    return Refuse(header, StatusCode::kInvalidRequest, "this executor takes no large payloads");
  }
  if (bulk_ == nullptr) {
    bulk_ = std::make_unique<BulkSession>(parts_.reactor, parts_.bulk_budget, windows_);
  }
  std::byte* output = staging_.data() + geometry_.OffsetOf(header.response_cell) + kHeaderBytes;
  const std::optional<BulkSession::Refusal> refusal =
      bulk_->Start(header, payload, requests_.data() + geometry_.OffsetOf(cell) + kFlagsOffset,
                   {output, header.response_capacity}, transport::MonotonicNs());
  if (refusal.has_value()) {
    if (refusal->counted != nullptr) Drop(refusal->counted);
    return Refuse(header, refusal->status, refusal->reason);
  }
  std::vector<uint16_t>* unfinished = parts_.unfinished;
  if (unfinished != nullptr &&
      std::find(unfinished->begin(), unfinished->end(), parts_.number) == unfinished->end()) {
    unfinished->push_back(parts_.number);
  }
}

ExecutorSession::Progress ExecutorSession::Continue() {
  const bool moved = bulk_ != nullptr && bulk_->active() && ContinueBulk();
  const bool flushed = responses_.Flush();
  if (ABSL_PREDICT_FALSE(!flushed) && responses_.overflowed()) {
    Fail(
        absl::ResourceExhaustedError("the client does not take its responses and has asked for "
                                     "more than it can have under way"));
  }
  if (moved || !flushed) return Progress::kMoving;
  return bulk_ != nullptr && bulk_->active() ? Progress::kWaiting : Progress::kDone;
}

bool ExecutorSession::ContinueBulk() {
  clock_ns_ = transport::MonotonicNs();
  bool moved = bulk_->Advance(clock_ns_, parts_.draining->load(std::memory_order_relaxed));
  if (bulk_->stalled()) {
    Fail(absl::UnavailableError(
        "the client takes no part in reading or writing its registered memory, or that is not "
        "what it registered"));
  }
  // One in a turn: others' requests may have come meanwhile.
  if (BulkCall* call = bulk_->FindReady(); call != nullptr) {
    RunBulk(call);
    moved = true;
  }
  for (const std::unique_ptr<BulkCall>& call : bulk_->TakeEnded()) {
    if (!call->answered()) RespondBulk(*call);
    moved = true;
  }
  return moved;
}

void ExecutorSession::RunBulk(BulkCall* call) {
  const RequestHeader& header = call->request();
  const FunctionEntry* function = parts_.functions->Find(header.function_id);
  const absl::Span<const std::byte> input = call->input();
  const absl::Span<std::byte> output = call->output();
  control_.Begin(call->flags(), call->deadline_ns());
  parts_.watch->Begin(watched_as_, header.function_id, counters_.executed);
  const int64_t output_size =
      RunFunctionCleared(*function, {reinterpret_cast<const uint8_t*>(input.data()), input.size()},
                         {reinterpret_cast<uint8_t*>(output.data()), output.size()},
                         absl::MakeSpan(error_text_), &failed_, &InvokerAskCancelled, &control_);
  EndForkedChild();
  parts_.watch->End();
  ++counters_.executed;
  counters_.bytes_in += input.size();
  if (output_size < 0) {
    RespondFailure(header);
    call->EndAnswered();
    return;
  }
  counters_.bytes_out += static_cast<uint64_t>(output_size);
  call->Write(static_cast<uint64_t>(output_size));
}

void ExecutorSession::RespondBulk(const BulkCall& call) {
  const RequestHeader& header = call.request();
  std::byte* payload = staging_.data() + geometry_.OffsetOf(header.response_cell) + kHeaderBytes;
  if (call.status() != StatusCode::kOk) {
    if (!call.has_run()) return Refuse(header, call.status(), call.reason());
    const uint32_t bytes =
        static_cast<uint32_t>(std::min<uint64_t>(call.reason().size(), header.response_capacity));
    memcpy(payload, call.reason().data(), bytes);
    return RespondTo(header, call.status(), bytes, /*detail=*/1);
  }
  uint32_t bytes = static_cast<uint32_t>(call.output_bytes());
  if (call.has_output_window()) {
    wire_internal::Store<uint64_t>(call.output_bytes(), payload);
    bytes = kBulkResultBytes;
  }
  RespondTo(header, StatusCode::kOk, bytes, 0);
}

}  // namespace invoker
