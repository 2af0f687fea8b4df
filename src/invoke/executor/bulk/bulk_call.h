// One bulk call at its executor: reads the input from the client's memory, runs the function,
// writes the output into the client's memory. docs/reference/wire_format.md has the request.
//
// Both pass through memory of the executor's own. The input's stays until the function has
// returned, the output's until it has been delivered. Transfers are cut into pieces, several of
// which are under way at a time, so other calls are served in between.
//
//   waits for memory -> reads -> is ready to run -> writes -> has ended
//
// A call may be stopped in every state but the last. It then ends once no transfer of it is under
// way any more. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_CALL_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "src/invoke/executor/bulk/bulk_budget.h"
#include "src/invoke/executor/bulk/spare_memory.h"
#include "src/invoke/executor/client_window.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class BulkCall final : public transport::OperationOwner {
 public:
  enum class State : uint8_t { kWaiting, kReading, kReady, kDeferred, kWriting, kEnded };

  struct Parts {
    transport::Reactor* reactor = nullptr;
    std::shared_ptr<BulkBudget> budget;
    SpareMemory* spare = nullptr;  // the session's
    RequestHeader request;
    // Checked: windows, access and bounds.
    BulkDescriptor descriptor;
    std::shared_ptr<ClientWindow> input_window;   // nullptr: `input` it is
    std::shared_ptr<ClientWindow> output_window;  // nullptr: `output` it is
    absl::Span<const std::byte> input;
    absl::Span<std::byte> output;
    int64_t deadline_ns = 0;           // MonotonicNs; 0: none
    const std::byte* flags = nullptr;  // the request's, where its client writes to them
  };

  explicit BulkCall(Parts parts);
  // Transfers that are under way complete for nobody. Their memory is retired.
  ~BulkCall() override;

  bool Overdue(int64_t now_ns) const {
    return parts_.deadline_ns != 0 && now_ns > parts_.deadline_ns;
  }

  const std::byte* flags() const { return parts_.flags; }
  int64_t deadline_ns() const { return parts_.deadline_ns; }

  // Takes memory and posts, as far as there is room. True if anything moved.
  bool Advance(int64_t now_ns);

  // The function's input and output. The call is ready.
  absl::Span<const std::byte> input() const;
  absl::Span<std::byte> output() const;
  // The function has run, and answers later: Write or EndAnswered.
  void Defer();
  // The function has run and left so many bytes of output.
  void Write(uint64_t output_bytes);
  // Instead of running a function: the memory of the input, which has come from a window, and what
  // pays for it. Nobody gets the input any more. Write or EndAnswered is next.
  std::pair<transport::HostBuffer, BulkBudget::Share> TakeInput();
  bool has_input_window() const { return parts_.input_window != nullptr; }
  // The function has run, and has failed, which has been answered.
  void EndAnswered();

  // Whether the client has taken a window back that the call still needs, so that it is to be moved
  // on, and ends.
  bool Forgotten() const;

  // Ends the call with this status, once nothing is under way. The first reason stays.
  void Stop(StatusCode status, std::string reason);

  // Whether its transfers do not end: the client takes no part in them, or has not the memory that
  // it registered. Then only the end of the session gives the memory back.
  bool stalled() const { return stalled_ns_ > parts_.budget->stall_ns; }

  // Whether transfers are under way.
  bool moves_data() const { return outstanding_ > 0; }

  State state() const { return state_; }
  const RequestHeader& request() const { return parts_.request; }
  // The outcome of a call that has ended. kOk: with output_bytes().
  bool answered() const { return answered_; }
  StatusCode status() const { return status_; }
  const std::string& reason() const { return reason_; }
  uint64_t output_bytes() const { return output_bytes_; }
  bool has_output_window() const { return parts_.output_window != nullptr; }
  // Whether the function has run.
  bool has_run() const { return has_run_; }

  void OnTransferDone(uint64_t tag) override;
  void OnOperationFailed(const transport::Operation& operation,
                         const absl::Status& status) override;

 private:
  bool TakeMemory();
  absl::Status Allocate(uint64_t bytes, transport::MemoryRegion* region);
  bool PostMore();
  void StopForgotten();
  // The window of the direction under way.
  ClientWindow* window() const {
    return (state_ == State::kReading ? parts_.input_window : parts_.output_window).get();
  }
  void EndIfQuiet();
  void LookForStall(int64_t now_ns);
  void GiveBack(transport::MemoryRegion* region, BulkBudget::Share* share);

  Parts parts_;
  State state_ = State::kWaiting;
  // The shares go after the memory.
  BulkBudget::Share input_share_;
  BulkBudget::Share output_share_;
  transport::MemoryRegion input_;
  transport::MemoryRegion output_;
  uint64_t posted_ = 0;       // bytes of the direction under way
  uint64_t to_post_ = 0;      // the same, in all
  uint32_t outstanding_ = 0;  // transfers
  uint64_t output_bytes_ = 0;
  int64_t advanced_ns_ = 0;  // when Advance was called last
  int64_t stalled_ns_ = 0;   // for how long no transfer has ended
  bool stopping_ = false;
  bool has_run_ = false;
  bool answered_ = false;
  StatusCode status_ = StatusCode::kOk;
  std::string reason_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_CALL_H_
