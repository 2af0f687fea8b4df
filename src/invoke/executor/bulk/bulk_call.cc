#include "src/invoke/executor/bulk/bulk_call.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "src/base/clock.h"

namespace invoker {
namespace {

// One transfer, so short that others of the executor's thread and of the fabric do not wait long
// for it, and so long that its own cost does not show.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// Transfers of one call that are under way.
constexpr uint32_t kMostOutstanding = 8;

// An executor that was away for longer has not seen transfers end meanwhile.
constexpr int64_t kLongestTurnNs = 100'000'000;

// Empty inputs and outputs lie here: functions get no null pointer.
alignas(64) std::byte g_nothing[64];

}  // namespace

BulkCall::BulkCall(Parts parts) : parts_(std::move(parts)) {}

BulkCall::~BulkCall() {
  if (outstanding_ > 0) parts_.reactor->RetireAllOf(this);
  GiveBack(&input_, &input_share_);
  GiveBack(&output_, &output_share_);
}

// Memory that the fabric may still be reading or writing keeps its addresses, and its share of the
// budget, for a while.
void BulkCall::GiveBack(transport::MemoryRegion* region, BulkBudget::Share* share) {
  const auto over = std::make_shared<const BulkBudget::Share>(std::move(*share));
  if (region->data() == nullptr) return;
  transport::MemoryRegion memory = std::exchange(*region, transport::MemoryRegion());
  if (outstanding_ == 0) {
    return parts_.spare->Give(std::move(memory).Close(), transport::MonotonicNs());
  }
  parts_.reactor->Retire(std::move(memory), over);
}

absl::Status BulkCall::Allocate(uint64_t bytes, transport::MemoryRegion* region) {
  if (bytes == 0) return absl::OkStatus();
  // What is stored stays for long: it is as large as it has to be.
  const bool is_stored = (parts_.request.flags & kStore) != 0;
  absl::StatusOr<transport::HostBuffer> buffer =
      is_stored ? transport::HostBuffer::Allocate(bytes) : parts_.spare->Take(bytes);
  if (!buffer.ok()) return buffer.status();
  buffer->PreferLargePages();
  absl::StatusOr<transport::MemoryRegion> registered =
      parts_.reactor->Register(*std::move(buffer), transport::RegionUse::kTransfer);
  if (!registered.ok()) return registered.status();
  *region = *std::move(registered);
  return absl::OkStatus();
}

// False if other calls have the memory now.
bool BulkCall::TakeMemory() {
  const uint64_t input_bytes = parts_.descriptor.input_length;
  const uint64_t output_bytes = parts_.descriptor.output_capacity;
  const uint64_t limit = parts_.budget->limit();
  if (input_bytes > limit || output_bytes > limit - input_bytes) {
    Stop(StatusCode::kNoMemory, "the memory for it has been taken by stored data meanwhile");
    return true;
  }
  if (!BulkBudget::Take(parts_.budget, input_bytes, output_bytes, &input_share_, &output_share_)) {
    return false;
  }
  absl::Status status = Allocate(input_bytes, &input_);
  if (status.ok()) status = Allocate(output_bytes, &output_);
  if (!status.ok()) {
    Stop(StatusCode::kNoMemory, std::string(status.message()));
    return true;
  }
  state_ = State::kReading;
  to_post_ = input_bytes;
  return true;
}

bool BulkCall::Advance(int64_t now_ns) {
  bool moved = false;
  LookForStall(now_ns);
  // A call whose function has run is answered, and the caller's own timer says whether that is in
  // time.
  if (Overdue(now_ns) && !has_run_) {
    Stop(StatusCode::kDeadlineExpired,
         "the deadline passed while the input was being read; the function did not run");
  }
  if (Forgotten()) StopForgotten();
  if (state_ == State::kWaiting && !stopping_) moved = TakeMemory();
  if (stopping_) {
    EndIfQuiet();
    return state_ == State::kEnded;
  }
  if (state_ == State::kReading || state_ == State::kWriting) {
    moved |= PostMore();
    if (!stopping_ && posted_ == to_post_ && outstanding_ == 0) {
      state_ = state_ == State::kReading ? State::kReady : State::kEnded;
      moved = true;
    }
  }
  return moved;
}

void BulkCall::LookForStall(int64_t now_ns) {
  const int64_t passed_ns = std::min(now_ns - advanced_ns_, kLongestTurnNs);
  advanced_ns_ = now_ns;
  stalled_ns_ = outstanding_ > 0 ? stalled_ns_ + passed_ns : 0;
}

bool BulkCall::PostMore() {
  transport::Reactor* const reactor = parts_.reactor;
  const bool reads = state_ == State::kReading;
  const uint64_t offset = reads ? parts_.descriptor.input_offset : parts_.descriptor.output_offset;
  transport::MemoryRegion& memory = reads ? input_ : output_;
  const uint64_t piece = std::min(kPieceBytes, reactor->profile().max_message_bytes);
  bool posted = false;
  while (posted_ < to_post_ && outstanding_ < kMostOutstanding && !stopping_) {
    // The other half of the slots is for responses.
    const transport::OperationPool& operations = reactor->operations();
    if (operations.outstanding() > operations.capacity() / 2) break;
    const uint64_t bytes = std::min(piece, to_post_ - posted_);
    if (!window()->BeginTransfer()) {
      StopForgotten();
      break;
    }
    // Before it is posted, since it may fail at once.
    ++outstanding_;
    const bool taken = reactor->PostTransfer(
        reads ? transport::TransferDirection::kRead : transport::TransferDirection::kWrite,
        window()->window(), offset + posted_, memory.data() + posted_, memory.descriptor(), bytes,
        this, 0);
    if (!taken) {
      --outstanding_;
      window()->EndTransfer();
      break;
    }
    posted_ += bytes;
    posted = true;
  }
  return posted;
}

absl::Span<const std::byte> BulkCall::input() const {
  if (parts_.input_window == nullptr) return parts_.input;
  const std::byte* data = input_.data() == nullptr ? g_nothing : input_.data();
  return {data, parts_.descriptor.input_length};
}

absl::Span<std::byte> BulkCall::output() const {
  if (parts_.output_window == nullptr) return parts_.output;
  std::byte* data = output_.data() == nullptr ? g_nothing : output_.data();
  return {data, parts_.descriptor.output_capacity};
}

void BulkCall::Defer() {
  assert(state_ == State::kReady);
  has_run_ = true;
  state_ = State::kDeferred;
}

void BulkCall::Write(uint64_t output_bytes) {
  assert(state_ == State::kReady || state_ == State::kDeferred);
  has_run_ = true;
  output_bytes_ = output_bytes;
  GiveBack(&input_, &input_share_);
  state_ = State::kWriting;
  posted_ = 0;
  to_post_ = parts_.output_window == nullptr ? 0 : output_bytes;
}

std::pair<transport::HostBuffer, BulkBudget::Share> BulkCall::TakeInput() {
  assert(state_ == State::kReady && has_input_window());
  transport::MemoryRegion region = std::exchange(input_, transport::MemoryRegion());
  return {std::move(region).Close(), std::move(input_share_)};
}

void BulkCall::EndAnswered() {
  assert(state_ == State::kReady || state_ == State::kDeferred);
  has_run_ = true;
  answered_ = true;
  state_ = State::kEnded;
}

void BulkCall::Stop(StatusCode status, std::string reason) {
  if (stopping_ || state_ == State::kEnded) return;
  stopping_ = true;
  status_ = status;
  reason_ = std::move(reason);
  EndIfQuiet();
}

bool BulkCall::Forgotten() const {
  const auto gone = [](const std::shared_ptr<ClientWindow>& window) {
    return window != nullptr && window->revoked();
  };
  return (!has_run_ && gone(parts_.input_window)) || gone(parts_.output_window);
}

void BulkCall::StopForgotten() {
  Stop(has_run_ ? StatusCode::kTransferFailed : StatusCode::kInvalidRequest,
       "the client has forgotten a window that the call names");
}

void BulkCall::EndIfQuiet() {
  if (outstanding_ == 0) state_ = State::kEnded;
}

void BulkCall::OnTransferDone(uint64_t tag) {
  static_cast<void>(tag);
  window()->EndTransfer();
  --outstanding_;
  stalled_ns_ = 0;
}

void BulkCall::OnOperationFailed(const transport::Operation& operation,
                                 const absl::Status& status) {
  static_cast<void>(operation);
  // An operation in quarantine may still be under way: the window stays in use.
  --outstanding_;
  Stop(StatusCode::kTransferFailed, std::string(status.message()));
}

}  // namespace invoker
