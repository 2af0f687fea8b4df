// Tells a function that runs whether its caller still waits for the answer.
//
// Each session has one, on its executor's thread, and sets it before every call. A function reaches
// it through invoker_call, and only on the thread that called it: asking lets the fabric's provider
// work, which only that thread may do.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_CALL_CONTROL_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_CALL_CONTROL_H_

#include <cstddef>
#include <cstdint>

#include "invoker/function.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class CallControl {
 public:
  explicit CallControl(transport::Reactor* reactor) : reactor_(reactor) {}

  // A call begins. `flags` is the flags byte of its request, in memory that the client writes to;
  // `deadline_ns` is MonotonicNs, 0: none.
  void Begin(const std::byte* flags, int64_t deadline_ns) {
    flags_ = flags;
    deadline_ns_ = deadline_ns;
  }

  // Whether the client has cancelled the call, or its deadline has passed. Cheap enough to be asked
  // in every round of a loop: most times it reads the clock and one byte.
  bool Cancelled();

 private:
  transport::Reactor* const reactor_;
  const std::byte* flags_ = nullptr;
  int64_t deadline_ns_ = 0;
  int64_t next_work_ns_ = 0;
};

// For invoker_call::cancelled, where invoker_call::worker is a CallControl.
extern "C" int32_t InvokerAskCancelled(const invoker_call* call);

// Whether the client has marked the request at this flags byte as cancelled.
bool IsMarkedCancelled(const std::byte* flags);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_CALL_CONTROL_H_
