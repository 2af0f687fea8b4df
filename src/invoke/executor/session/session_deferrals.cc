#include "src/invoke/executor/session/session_deferrals.h"

#include <utility>

#include "src/base/probes.h"
#include "src/invoke/executor/session/call_control.h"
#include "src/invoke/function/function_registry.h"

namespace invoker {

SessionDeferrals::SessionDeferrals(FunctionRunner* functions, SessionUsage* usage,
                                   std::function<void()> wake)
    : functions_(functions),
      usage_(usage),
      wake_(std::move(wake)),
      owner_(std::make_shared<Owner>(this)) {}

SessionDeferrals::~SessionDeferrals() {
  for (const auto& [sequence, call] : calls_) call->Cancel();
}

bool SessionDeferrals::Keep(const RequestHeader& header, uint64_t bytes_in,
                            const std::byte* flags) {
  if (functions_->failure().kind == CallOutcome::Kind::kNoRoom) {
    usage_->TakeBackRun(header.function_id, bytes_in);
  }
  if (functions_->failure().kind != CallOutcome::Kind::kDeferred) return false;
  const std::shared_ptr<DeferredCall> call = functions_->control().TakeDeferred(header.sequence);
  if (call == nullptr) {
    functions_->FailUndeferred();
    return false;
  }
  usage_->TakeBackRun(header.function_id, bytes_in);
  call->Place(header, flags, owner_);
  calls_[header.sequence] = call;
  // On a thread of its own it begins when one has time for it.
  if (functions_->Find(header.function_id)->concurrency == 0) call->Begin(/*on_own_thread=*/false);
  return true;
}

void SessionDeferrals::LookForCancelled() {
  for (const auto& [sequence, call] : calls_) {
    if (!call->cancelled() && IsMarkedCancelled(call->flags())) call->Cancel();
  }
}

void SessionDeferrals::Owner::Finish(DeferredCall* call) {
  deferrals_->finished_.push_back(call->shared_from_this());
  deferrals_->wake_();
}

std::vector<std::shared_ptr<DeferredCall>> SessionDeferrals::Take() {
  for (const std::shared_ptr<DeferredCall>& call : finished_) {
    calls_.erase(call->header().sequence);
    functions_->control().FreeRoom(*call);
    usage_->AddBusy(call->run_ticks());
    if (!call->has_run()) continue;
    usage_->CountRun(call->header().function_id, call->input_size());
    if (call->tells_of_failure()) usage_->CountFailure(call->header().function_id);
    usage_->CountDeferred(call->header().function_id, call->ticks());
  }
  return std::exchange(finished_, {});
}

absl::Span<const std::byte> SessionDeferrals::OutputOrAnswer(DeferredCall* call,
                                                             ResponseWriter* responses,
                                                             int64_t now_ns) {
  const RequestHeader& header = call->header();
  if (!call->has_run()) {
    responses->Refuse(header, call->refusal(), call->reason(), now_ns);
    return {};
  }
  const absl::Span<const std::byte> output = call->output();
  const int64_t returned = call->returned();
  INVOKER_PROBE2(response, header.function_id, returned);
  if (returned >= 0 && static_cast<uint64_t>(returned) <= output.size()) {
    return output.first(static_cast<size_t>(returned));
  }
  // What the function may have done to its copy of the buffers is not looked at.
  invoker_call judged = *call->call();
  judged.services = nullptr;  // it cannot be deferred once more
  judged.output_capacity = output.size();
  judged.error = call->error().data();
  judged.error_capacity = call->error().size();
  const CallOutcome outcome = JudgeFailure(returned, judged);
  responses->RespondFailure(header, outcome, {call->error().data(), outcome.error_size}, now_ns);
  return {};
}

}  // namespace invoker
