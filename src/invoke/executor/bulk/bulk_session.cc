#include "src/invoke/executor/bulk/bulk_session.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/executor/session/call_control.h"
#include "src/invoke/wire/sequence_window.h"

namespace invoker {
namespace {

// Calls under way: as many as a client of this library can have, of any kind. One that is not may
// use the cells of its requests again before they have been answered, so the window is no bound.
constexpr size_t kMostCalls = SequenceWindow::kWidth;

BulkSession::Refusal Invalid(absl::string_view why) {
  return {StatusCode::kInvalidRequest, std::string(why), &DropCounters::invalid_request};
}

}  // namespace

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

std::optional<BulkSession::Refusal> BulkSession::Start(const RequestHeader& request,
                                                       const std::byte* payload,
                                                       const std::byte* flags,
                                                       absl::Span<std::byte> output,
                                                       int64_t now_ns) {
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
  // The lengths lie in windows, so that each is less than 2^64, but both may not be.
  const uint64_t limit = budget_->limit();
  if (descriptor.input_length > limit ||
      descriptor.output_capacity > limit - descriptor.input_length) {
    return Refusal{StatusCode::kNoMemory,
                   absl::StrCat("an input of ", descriptor.input_length, " bytes and an output of ",
                                descriptor.output_capacity, " are more than the ", limit,
                                " bytes that the worker gives to large payloads: of its own "
                                "executors --bulk-memory, of a lease's its memory sets that"),
                   /*counted=*/nullptr};
  }
  parts.reactor = reactor_;
  parts.budget = budget_;
  parts.request = request;
  parts.input_window = *std::move(in);
  parts.output_window = *std::move(out);
  parts.input = {payload + kBulkDescriptorBytes, inline_bytes};
  parts.output = output;
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
    // Who came first has memory first. A deadline may pass meanwhile all the same, or a client take
    // its memory back.
    if (waits && memory_is_short && !call->Overdue(now_ns) && !call->Forgotten()) continue;
    moved |= call->Advance(now_ns);
    memory_is_short |= call->state() == BulkCall::State::kWaiting;
  }
  return moved;
}

bool BulkSession::stalled() const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const std::unique_ptr<BulkCall>& call) { return call->stalled(); });
}

BulkCall* BulkSession::FindReady() {
  for (const std::unique_ptr<BulkCall>& call : calls_) {
    if (call->state() == BulkCall::State::kReady) return call.get();
  }
  return nullptr;
}

std::vector<std::unique_ptr<BulkCall>> BulkSession::TakeEnded() {
  const auto ended = std::stable_partition(calls_.begin(), calls_.end(),
                                           [](const std::unique_ptr<BulkCall>& call) {
                                             return call->state() != BulkCall::State::kEnded;
                                           });
  std::vector<std::unique_ptr<BulkCall>> taken(std::make_move_iterator(ended),
                                               std::make_move_iterator(calls_.end()));
  calls_.erase(ended, calls_.end());
  return taken;
}

}  // namespace invoker
