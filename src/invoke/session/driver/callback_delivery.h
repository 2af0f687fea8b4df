// Runs the callbacks of calls that have ended, without the turn lock, so that they may make calls
// themselves.
//
// A thread must not wait for a call whose result only it can deliver. So each thread has a list of
// the deliveries that it is inside of, and a callback that waits for room runs the callbacks that
// its own thread has taken along.
//
// Everything here happens under the turn lock. Methods that take the lock let go of it meanwhile.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_CALLBACK_DELIVERY_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_CALLBACK_DELIVERY_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "invoker/response.h"
#include "src/invoke/session/call.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/driver/turn_lock.h"

namespace invoker {

class CallbackDelivery {
 public:
  // While a thread has one, the methods that it calls run no callbacks of other calls: they may
  // wait for something that the thread has yet to do.
  class Elsewhere {
   public:
    Elsewhere() : before_(std::exchange(t_elsewhere_, true)) {}
    ~Elsewhere() { t_elsewhere_ = before_; }
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;

   private:
    const bool before_;
  };
  // Whether this thread has an Elsewhere.
  static bool elsewhere() { return t_elsewhere_; }

  // Takes some calls out of `finished` and runs their callbacks. `collect` gives a call back and
  // returns its result. `waits_for_call`: this thread is in Run, Await or AwaitEnd.
  void Run(TurnLock& lock, std::vector<Call*>* finished, bool waits_for_call,
           absl::FunctionRef<absl::StatusOr<Response>(Call*)> collect)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock);

  // Inside of a callback: runs one more of the callbacks that this thread has taken along. False if
  // none is left.
  bool RunNext(TurnLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock);

  // Waits for a thread that runs callbacks now. False, at once, if there is none, or this thread is
  // one. Returns early, too: ask again. One thread at a time.
  bool AwaitOthers(TurnLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock);

  // Whether this thread is inside of a callback from here.
  bool RunsHere() const;

  // Whether another thread is about to take a result, or to let go of one. `waiting` threads are in
  // Run, Await or AwaitEnd, and hold cells until they take their results. `due`: callbacks wait to
  // be run. Threads that wait for room inside of callbacks do not count, since they may wait for
  // this thread.
  bool OthersMayRelease(uint32_t waiting, bool due) const;

  // This thread begins to wait for room. EndWaitForRoom gets what this returns.
  uint32_t BeginWaitForRoom() {
    const uint32_t here = CountHere().value_or(0);
    stuck_ += here;
    return here;
  }
  void EndWaitForRoom(uint32_t here) { stuck_ -= here; }

 private:
  struct Result {
    CallDone on_done;
    absl::StatusOr<Response> response;
  };
  // What one thread is delivering.
  struct Delivery {
    void RunNext();

    const CallbackDelivery* from;
    Delivery* outer;  // the delivery whose callback this thread is inside of meanwhile
    bool waits_for_call;
    absl::Span<Result> rest;  // still to be delivered
  };

  std::optional<uint32_t> CountHere() const;

  static thread_local Delivery* t_delivery_;
  static thread_local bool t_elsewhere_;

  uint32_t delivering_ = 0;  // threads that run callbacks, whose responses hold cells until then
  uint32_t stuck_ = 0;       // what threads that wait for room count for in OthersMayRelease
  CallWaiter* closer_ = nullptr;  // a thread in AwaitOthers
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_CALLBACK_DELIVERY_H_
