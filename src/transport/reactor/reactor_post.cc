// Reactor: posts, and the operations that the provider refuses or fails.

#include "absl/strings/str_cat.h"
#include "src/transport/base/ring_message.h"
#include "src/transport/base/status.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {

// A slot for an operation without a token; nullptr if every slot is taken.
Operation* Reactor::AcquireFor(const Notifier* notifier, fi_addr_t peer, OperationOwner* owner,
                               uint64_t tag) {
  turn_.AssertDriver();
  Operation* operation = slots_.pool().Acquire();
  if (operation == nullptr) return nullptr;
  operation->notifier = notifier;
  operation->peer = peer;
  operation->owner = owner;
  operation->tag = tag;
  ++counters_.posts;
  return operation;
}

bool Reactor::PostAtomicAdd(const RemoteCounters& counters, uint32_t index, uint64_t value,
                            OperationOwner* owner, uint64_t tag) {
  const CounterDescriptor& at = counters.descriptor;
  Operation* operation = AcquireFor(GetAdder(at.method), counters.peer, owner, tag);
  if (operation == nullptr) return false;
  const uint64_t offset = index * uint64_t{kCounterBytes};
  operation->remote_address = at.base + offset;
  operation->remote_key = at.key;
  PrepareAdd(at.method, offset, value, operation);
  PostStep(operation);
  return true;
}

bool Reactor::PostCheck(fi_addr_t peer, uint64_t nonce, OperationOwner* owner) {
  Operation* operation = AcquireFor(GetStagedSender(), peer, owner, /*tag=*/0);
  if (operation == nullptr) return false;
  EncodeCheck(nonce, operation->staging);
  operation->source = operation->staging;
  operation->length = kRingHeaderBytes;
  PostStep(operation);
  return true;
}

bool Reactor::PostTransfer(TransferDirection direction, const RemoteWindow& window, uint64_t offset,
                           void* local, void* descriptor, uint64_t length, OperationOwner* owner,
                           uint64_t tag) {
  Operation* operation = AcquireFor(GetTransferrer(direction), window.peer, owner, tag);
  if (operation == nullptr) return false;
  operation->source = local;
  operation->descriptor = descriptor;
  operation->length = length;
  operation->remote_address = window.AddressOf(offset);
  operation->remote_key = window.key;
  PostStep(operation);
  return true;
}

void Reactor::PostQuiesceWrite(const RemoteWindow& window, std::byte last) {
  if (!profile().close_needs_quiet || quiesce_write_.posted()) return;
  *slots_.spare_byte() = last;
  quiesce_write_.set_posted(PostTransfer(TransferDirection::kWrite, window, window.length - 1,
                                         slots_.spare_byte(), slots_.spare_descriptor(),
                                         /*length=*/1, &quiesce_write_, /*tag=*/0));
}

// A provider that is to write one byte and has nothing else of ours under way refuses that only
// while it has no connection to the peer. There has been one, so the half-received bytes have gone
// with it. It may refuse for ever, since it tries to connect each time.
bool Reactor::is_quiet() const {
  const Operation* const refused = retries_.front();
  return quiesce_write_.over() || (refused != nullptr && refused->owner == &quiesce_write_ &&
                                   operations().outstanding() == 1);
}

bool Reactor::AwaitQuiesceWrite(absl::Duration limit) {
  const int64_t deadline_ns = MonotonicNs() + absl::ToInt64Nanoseconds(limit);
  while (quiesce_write_.under_way() && !is_quiet()) {
    const int64_t left_ns = deadline_ns - MonotonicNs();
    if (left_ns <= 0) return false;
    if (Poll() == 0) Wait(absl::Nanoseconds(left_ns));
  }
  return is_quiet();
}

void Reactor::PostFirst(Operation* operation, ssize_t code) {
  if (code == 0) return PostStep(operation);
  int error = 0;
  const PostResult result = JudgePost(code, &error);
  Settle(operation, result, error);
}

void Reactor::PostStep(Operation* operation) {
  int error = 0;
  const PostResult result = operation->notifier->Post(endpoint_->poster(), operation, &error);
  Settle(operation, result, error);
}

// The owner stays, whatever becomes of the post.
void Reactor::PostLater(Operation* operation) {
  OperationOwner* const owner = operation->owner;
  PostStep(operation);
  owner->OnPostedLater();
}

// Follows an attempt to post.
void Reactor::Settle(Operation* operation, PostResult result, int error) {
  switch (result) {
    case PostResult::kPosted:
      return;
    case PostResult::kAgain:
      ++counters_.posts_refused;
      retries_.Push(operation, MonotonicNs());
      return;
    case PostResult::kFailed:
      Fail(operation, ToStatus(absl::StrCat("posting ", operation->notifier->what()), error));
      ReleaseIfDone(operation);
      return;
    case PostResult::kOver: {
      OperationOwner* const owner = operation->owner;
      const uint64_t tag = operation->tag;
      slots_.pool().Release(operation);
      owner->OnTransferDone(tag);
      return;
    }
  }
}

void Reactor::Fail(Operation* operation, const absl::Status& status) {
  // An operation with two completions may fail twice.
  if (!operation->failed) ++counters_.posts_failed;
  operation->failed = true;
  operation->step = Operation::Step::kDone;
  OperationOwner* owner = operation->owner;
  slots_.pool().Retire(operation, MonotonicNs());
  if (owner != nullptr) owner->OnOperationFailed(*operation, status);
}

void Reactor::ReleaseIfDone(Operation* operation) {
  if (operation->step == Operation::Step::kDone && operation->completions_due == 0 &&
      !operation->queued) {
    slots_.pool().Release(operation);
  }
}

void Reactor::RunRetries(int64_t now_ns) {
  retries_.RunOnce(now_ns, [this](Operation* operation, bool expired) {
    if (operation->owner == nullptr) operation->step = Operation::Step::kDone;
    if (operation->step == Operation::Step::kDone) return ReleaseIfDone(operation);
    if (!expired) return PostLater(operation);
    Fail(operation,
         absl::DeadlineExceededError(absl::StrCat(
             "posting ", operation->notifier->what(), ": the provider refused it (-FI_EAGAIN) for ",
             retries_.limit_ns() / 1'000'000, " ms; the peer takes nothing")));
    ReleaseIfDone(operation);
  });
}

void Reactor::ForEachUntold(const OperationOwner* owner,
                            absl::FunctionRef<void(const Operation&)> visit) const {
  retries_.ForEach([&](const Operation& operation) {
    if (operation.owner == owner && operation.completions_due == 0) visit(operation);
  });
}

void Reactor::ForEachUndelivered(const OperationOwner* owner,
                                 absl::FunctionRef<void(const Operation&)> visit) const {
  operations().ForEachOf(owner, [&](const Operation& operation) {
    if (operation.step == Operation::Step::kSend && !operation.queued) visit(operation);
  });
}

}  // namespace invoker::transport
