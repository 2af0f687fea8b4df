#include "src/invoke/executor/bulk/bulk_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/probes.h"
#include "src/invoke/executor/session/call_control.h"
#include "src/invoke/wire/sequence_window.h"

namespace invoker {
namespace {

// A client of this library has at most this many calls under way, of any kind. Another client may
// use the cells of a request again before the answer, so the size of the window is no bound.
constexpr size_t kMostCalls = SequenceWindow::kWidth;

}  // namespace

BulkSession::BulkSession(transport::Reactor* reactor, std::shared_ptr<BulkBudget> budget,
                         fi_addr_t peer, FunctionRunner* functions, ResponseWriter* responses,
                         SessionUsage* usage, SessionDeferrals* deferrals, DataStore* store)
    : reactor_(reactor),
      budget_(std::move(budget)),
      windows_(budget_ == nullptr ? nullptr
                                  : std::make_shared<SessionWindows>(peer, reactor->profile())),
      functions_(functions),
      responses_(responses),
      usage_(usage),
      deferrals_(deferrals),
      store_(store),
      spare_(budget_ == nullptr ? nullptr : &budget_->keepers) {}

BulkSession::Refusal BulkSession::Invalid(absl::string_view why) {
  return {StatusCode::kInvalidRequest, std::string(why), &DropCounters::invalid_request};
}

bool BulkSession::Has(uint64_t sequence) const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [sequence](const auto& call) { return call->request().sequence == sequence; });
}

absl::StatusOr<std::shared_ptr<ClientWindow>> BulkSession::FindWindow(uint16_t number,
                                                                      uint64_t offset,
                                                                      uint64_t length,
                                                                      bool writes) const {
  if (number == 0) return std::shared_ptr<ClientWindow>();
  std::shared_ptr<ClientWindow> window = windows_->Find(number);
  if (window == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the session has no window ", number));
  }
  if (writes ? !window->writable() : !window->readable()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "window ", number, " has not been registered to be ", writes ? "written" : "read"));
  }
  if (!window->window().Contains(offset, length)) {
    return absl::InvalidArgumentError(absl::StrCat(length, " bytes at ", offset,
                                                   " do not lie in window ", number, " of ",
                                                   window->window().length, " bytes"));
  }
  return window;
}

bool BulkSession::Start(const RequestHeader& request, const std::byte* payload,
                        const std::byte* flags, int64_t now_ns) {
  const std::optional<Refusal> refusal = Add(request, payload, flags, now_ns);
  if (!refusal.has_value()) return true;
  if (refusal->counted != nullptr) usage_->CountDrop(refusal->counted);
  responses_->Refuse(request, refusal->status, refusal->reason, now_ns);
  return false;
}

// A call that is refused is refused before anything of its windows is read.
std::optional<BulkSession::Refusal> BulkSession::Add(const RequestHeader& request,
                                                     const std::byte* payload,
                                                     const std::byte* flags, int64_t now_ns) {
  if (windows_ == nullptr) return Invalid("this executor takes no large payloads");
  if (calls_.size() >= kMostCalls) {
    return Refusal{StatusCode::kNoMemory,
                   absl::StrCat(calls_.size(),
                                " calls with large payloads are under way in the "
                                "session, which is all it can; wait for some"),
                   &DropCounters::too_many_calls};
  }
  BulkCall::Parts parts;
  if (request.kind != MessageKind::kRequest || request.payload_bytes < kBulkDescriptorBytes ||
      !DecodeBulkDescriptor(payload, &parts.descriptor)) {
    return Invalid("a bulk request without a valid descriptor");
  }
  const BulkDescriptor& descriptor = parts.descriptor;
  absl::StatusOr<std::shared_ptr<ClientWindow>> in =
      FindWindow(descriptor.input_window, descriptor.input_offset, descriptor.input_length, false);
  if (!in.ok()) return Invalid(in.status().message());
  absl::StatusOr<std::shared_ptr<ClientWindow>> out = FindWindow(
      descriptor.output_window, descriptor.output_offset, descriptor.output_capacity, true);
  if (!out.ok()) return Invalid(out.status().message());
  const uint32_t inline_bytes = request.payload_bytes - kBulkDescriptorBytes;
  if (*in != nullptr && inline_bytes > 0) {
    return Invalid("a bulk request with two inputs");
  }
  if (*out != nullptr && request.response_capacity < kBulkResultBytes) {
    return Invalid("a response without room for the output's length");
  }
  // Each length lies in a window, so it is less than 2^64. Their sum may not be.
  const uint64_t limit = budget_->limit();
  if (descriptor.input_length > limit ||
      descriptor.output_capacity > limit - descriptor.input_length) {
    return Refusal{StatusCode::kNoMemory,
                   absl::StrCat("an input of ", descriptor.input_length, " bytes and an output of ",
                                descriptor.output_capacity, " are more than the ", limit,
                                " bytes that the worker gives to large payloads: of its own "
                                "executors --bulk-memory, of a lease's its memory less the data "
                                "that is stored there"),
                   /*counted=*/nullptr};
  }
  parts.reactor = reactor_;
  parts.budget = budget_;
  parts.spare = &spare_;
  parts.request = request;
  parts.input_window = *std::move(in);
  parts.output_window = *std::move(out);
  parts.input = {payload + kBulkDescriptorBytes, inline_bytes};
  parts.output = responses_->PayloadOf(request);
  parts.flags = flags;
  if (request.deadline_us != 0) parts.deadline_ns = now_ns + int64_t{request.deadline_us} * 1000;
  calls_.push_back(std::make_unique<BulkCall>(std::move(parts)));
  return std::nullopt;
}

bool BulkSession::Advance(int64_t now_ns, bool draining) {
  bool moved = false;
  bool memory_is_short = false;
  for (const std::unique_ptr<BulkCall>& call : calls_) {
    const bool waits = call->state() == BulkCall::State::kWaiting;
    if (draining && !call->has_run()) {
      call->Stop(StatusCode::kDraining, std::string(kTakesNoMoreCalls));
    }
    if (!call->has_run() && IsMarkedCancelled(call->flags())) {
      call->Stop(StatusCode::kCancelled, "");
    }
    // The first call that waits gets memory first. The others move on only to end.
    if (waits && memory_is_short && !call->Overdue(now_ns) && !call->Forgotten()) continue;
    moved |= call->Advance(now_ns);
    memory_is_short |= call->state() == BulkCall::State::kWaiting;
  }
  return moved;
}

bool BulkSession::moves_data() const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const std::unique_ptr<BulkCall>& call) { return call->moves_data(); });
}

bool BulkSession::stalled() const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const std::unique_ptr<BulkCall>& call) { return call->stalled(); });
}

bool BulkSession::Continue(int64_t now_ns, bool draining) {
  bool moved = Advance(now_ns, draining);
  // One function a turn: requests of other sessions may have come meanwhile.
  const auto ready = std::find_if(calls_.begin(), calls_.end(), [](const auto& call) {
    return call->state() == BulkCall::State::kReady;
  });
  if (ready != calls_.end()) {
    const bool is_stored = ((*ready)->request().flags & kStore) != 0;
    is_stored ? Store(ready->get(), now_ns) : Run(ready->get(), now_ns);
    moved = true;
  }
  const auto ended = std::remove_if(calls_.begin(), calls_.end(), [&](const auto& call) {
    if (call->state() != BulkCall::State::kEnded) return false;
    if (!call->answered()) Respond(*call, now_ns);
    return true;
  });
  moved |= ended != calls_.end();
  calls_.erase(ended, calls_.end());
  if (moves_data()) responses_->WakeClient();
  return moved;
}

void BulkSession::Run(BulkCall* call, int64_t now_ns) {
  const RequestHeader& header = call->request();
  const absl::Span<const std::byte> input = call->input();
  INVOKER_PROBE2(run, header.function_id, input.size());
  const int64_t output_size = functions_->Run(
      *functions_->Find(header.function_id), header.function_id, input, call->output(),
      call->flags(), call->deadline_ns(), usage_->counters().executed);
  usage_->CountRun(header.function_id, input.size());
  if (output_size < 0) {
    if (deferrals_->Keep(header, input.size(), call->flags())) return call->Defer();
    INVOKER_PROBE2(response, header.function_id, int64_t{-1});
    usage_->CountUntimedOf(header.function_id);
    responses_->RespondFailure(header, functions_->failure(), functions_->error(), now_ns);
    functions_->ClearError();
    call->EndAnswered();
    return;
  }
  INVOKER_PROBE2(response, header.function_id, output_size);
  usage_->CountUntimedOf(header.function_id);
  usage_->CountOutput(header.function_id, static_cast<uint64_t>(output_size));
  call->Write(static_cast<uint64_t>(output_size));
}

void BulkSession::Store(BulkCall* call, int64_t now_ns) {
  const auto operation = static_cast<StoreOperation>(call->request().function_id);
  const size_t bytes = call->input().size();
  absl::Status status;
  if (operation == StoreOperation::kPut && call->has_input_window() && bytes > 0) {
    auto [memory, share] = call->TakeInput();
    status = store_->Take(std::move(memory), bytes, std::move(share));
  } else {
    status = store_->Do(operation, call->input());
  }
  if (status.ok()) {
    usage_->CountStored(bytes);
    return call->Write(0);
  }
  responses_->RefuseStored(call->request(), status, now_ns);
  call->EndAnswered();
}

void BulkSession::FinishDeferred(DeferredCall* deferred, int64_t now_ns) {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [deferred](const auto& call) {
    return call->state() == BulkCall::State::kDeferred &&
           call->request().sequence == deferred->header().sequence;
  });
  if (found == calls_.end()) return;
  BulkCall* const call = found->get();
  const absl::Span<const std::byte> output =
      SessionDeferrals::OutputOrAnswer(deferred, responses_, now_ns);
  if (output.data() == nullptr) return call->EndAnswered();
  if (!output.empty()) memcpy(call->output().data(), output.data(), output.size());
  usage_->CountOutput(deferred->header().function_id, output.size());
  call->Write(output.size());
}

void BulkSession::Respond(const BulkCall& call, int64_t now_ns) {
  const RequestHeader& header = call.request();
  if (call.status() != StatusCode::kOk) {
    if (!call.has_run()) return responses_->Refuse(header, call.status(), call.reason(), now_ns);
    responses_->RespondWith(header, call.status(), call.reason(), /*detail=*/1, now_ns);
    return;
  }
  auto bytes = static_cast<uint32_t>(call.output_bytes());
  if (call.has_output_window()) {
    wire_internal::Store<uint64_t>(call.output_bytes(), responses_->PayloadOf(header).data());
    bytes = kBulkResultBytes;
  }
  responses_->Respond(header, StatusCode::kOk, bytes, 0, now_ns);
}

}  // namespace invoker
