// A call that has been started, and its result once it has ended: shared by the thread that drives
// and by Python's.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_PENDING_CALL_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_PENDING_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "invoker/response.h"
#include "src/python/native/calls/ended_queue.h"
#include "src/python/native/futex_flag.h"
#include "src/python/native/memory.h"
#include "src/python/native/typed/signature_codec.h"

namespace invoker::python {

// Any thread, with or without the GIL, but where it says otherwise.
class PendingCall {
 public:
  // What the call keeps until it has ended.
  struct Kept {
    bool copies = false;  // `request` is a copy of the input
    std::string request;
    bool large = false;  // the windows are too small for it
    uint64_t room = 0;   // bytes that the caller has for the response, if it says so
    Memory response;     // where a large call's response comes
    std::vector<UntypedReference> references;
  };

  // With one share, the caller's. `kept` may be nullptr.
  static PendingCall* Make(std::unique_ptr<Kept> kept) { return new PendingCall(std::move(kept)); }
  void AddShare() { shares_.fetch_add(1, std::memory_order_relaxed); }
  void LetGo() {
    if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Before the call is started.
  Kept* kept() { return kept_.get(); }

  // The call has ended. Once.
  void End(absl::StatusOr<Response> response);
  bool ended() const { return state_.load(std::memory_order_acquire) == State::kEnded; }

  // Has the call's end pushed to the queue. False, and it is not, if it has ended already. Once.
  bool Watch(std::shared_ptr<EndedQueue> queue, uint64_t token);
  // Blocks until it has ended, but no longer than this; may return early. Does not drive.
  void Await(absl::Duration limit);

  // Before the call is cancelled: if it then ends as cancelled, this is why.
  void RequestCancel() { cancel_requested_.store(true, std::memory_order_relaxed); }

  // Once it has ended: one thread at a time.
  absl::StatusOr<Memory>& response() { return response_; }
  uint64_t session() const { return session_; }
  bool cancelled() const {
    return absl::IsCancelled(response_.status()) &&
           cancel_requested_.load(std::memory_order_relaxed);
  }

 private:
  enum class State : uint8_t { kUnderWay, kWatched, kEnded };

  explicit PendingCall(std::unique_ptr<Kept> kept) : kept_(std::move(kept)) {}

  std::atomic<State> state_{State::kUnderWay};
  std::atomic<bool> cancel_requested_{false};
  std::atomic<uint32_t> shares_{1};
  std::atomic<uint32_t> waiters_{0};  // in Await
  FutexFlag over_;                    // set if there are waiters
  absl::StatusOr<Memory> response_;
  uint64_t session_ = 0;
  std::unique_ptr<Kept> kept_;
  std::shared_ptr<EndedQueue> queue_;  // from kWatched on
  uint64_t token_ = 0;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_PENDING_CALL_H_
