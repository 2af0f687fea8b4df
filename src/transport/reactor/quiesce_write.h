// The owner of the write that shows that no peer's write is half received any more
// (Reactor::PostQuiesceWrite). Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_QUIESCE_WRITE_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_QUIESCE_WRITE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "src/transport/operations/operation_pool.h"

namespace invoker::transport {

class QuiesceWrite final : public OperationOwner {
 public:
  bool posted() const { return state_ != State::kNotPosted; }
  bool under_way() const { return state_ == State::kUnderWay; }
  // Whether nothing is half received.
  bool over() const { return state_ == State::kOver; }

  void set_posted(bool posted) { state_ = posted ? State::kUnderWay : State::kNotPosted; }

  void OnTransferDone(uint64_t) override { state_ = State::kOver; }
  // If the connection has gone, the half-received bytes have gone with it. Any other failure, such
  // as want of memory, says nothing of the connection.
  void OnOperationFailed(const Operation&, const absl::Status& status) override {
    const bool gone = absl::IsUnavailable(status) || absl::IsCancelled(status);
    state_ = gone ? State::kOver : State::kFailed;
  }

 private:
  enum class State : uint8_t { kNotPosted, kUnderWay, kOver, kFailed };
  State state_ = State::kNotPosted;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_QUIESCE_WRITE_H_
