// Calls from Python to a client or a group: what only C++ can do; the rest is in
// invoker/_calls/native_calls.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CALLER_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CALLER_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "src/python/native/calls/call_target.h"
#include "src/python/native/calls/ended_queue.h"
#include "src/python/native/calls/pending_call.h"
#include "src/python/native/frames/frame.h"
#include "src/python/native/server/fork_mark.h"
#include "src/python/native/typed/signature_codec.h"

namespace invoker::python {

// Methods are called with the GIL and release it wherever they wait. Any thread; in a process that
// was forked after the target was opened every method but Close raises.
class NativeCaller {
 public:
  virtual ~NativeCaller();
  NativeCaller(const NativeCaller&) = delete;
  NativeCaller& operator=(const NativeCaller&) = delete;

  FunctionHandle Function(const std::string& name) const;
  std::vector<std::string> FunctionNames() const;
  uint64_t max_payload() const { return Target()->max_payload(); }
  // 0: it is closed.
  size_t executors() const { return target_ == nullptr ? 0 : target_->executors(); }

  // Borrowed; nullptr: not given.
  struct CallArguments {
    PyObject* data = nullptr;
    PyObject* timeout = nullptr;            // seconds
    PyObject* response_capacity = nullptr;  // bytes
    PyObject* out = nullptr;
    PyObject* retry = nullptr;
  };

  // Calls and waits. Returns a memoryview of the response: of memory of its own, or of the
  // beginning of `out`. Signals are looked at while it waits, if this is the main thread. Throws
  // Python's exception.
  pybind11::object Call(const FunctionHandle& function, const CallArguments& arguments);

  struct CallTerms {
    std::optional<double> timeout_s;
    std::optional<int64_t> response_capacity;
    uint64_t room = 0;  // bytes that the caller has for the response, if it says so
    int64_t retry = 0;
    bool may_block = true;
  };

  // Starts a call. `self` is this caller's Python object. Returns a StartedCall; or None, and
  // nothing has been started, if there is no room in the windows, or they are too small, and it may
  // not block. Data is not referred to afterwards.
  pybind11::object Start(PyObject* self, const FunctionHandle& function, PyObject* data,
                         const CallTerms& terms);

  // The same with a frame. Without a response_capacity there is room for as much as the frame has,
  // or `room`. CallFrame returns the kind and the value of the answer's frame, and the number of
  // the session that it came in; or 0, and the ValueError that reading it has raised.
  pybind11::tuple CallFrame(const FunctionHandle& function, const Frame& frame, CallTerms terms);
  pybind11::object StartFrame(PyObject* self, const FunctionHandle& function, const Frame& frame,
                              CallTerms terms);

  // The same with typed arguments. CallTyped returns the function's result, and a response_capacity
  // beyond max_payload has the response come into memory that is registered for it.
  pybind11::object CallTyped(const FunctionHandle& function, const SignatureCodec& signature,
                             absl::Span<PyObject* const> arguments, CallTerms terms);
  pybind11::object StartTyped(PyObject* self, const FunctionHandle& function,
                              const SignatureCodec& signature,
                              absl::Span<PyObject* const> arguments, CallTerms terms);

  // For a StartedCall of this caller's:
  // Ends the call as cancelled. False if it has ended.
  bool Cancel(CallHandle& call);
  // Waits until the call has ended, or until there is something to take, and drives calls
  // meanwhile. Whether it is so; false after `timeout` seconds. Signals are looked at as in Call.
  bool Await(PendingCall& call, std::optional<double> timeout);
  bool Await(const EndedQueue& queue, std::optional<double> timeout);
  // The same for calls that other threads drive, however long it takes.
  static void AwaitOthers(const EndedQueue& queue);
  // No thread is going to wait for the calls that have been started.
  void LeaveToHelper();

  // Ends calls under way and the sessions. Blocks for a round trip to each server. Again: does
  // nothing.
  void Close();
  bool closed() const { return target_ == nullptr; }
  // Whether this is another process than the one that opened the target.
  bool forked() const { return mark_.forked(); }

 protected:
  // `what` the target is, for errors.
  NativeCaller(const char* what, std::shared_ptr<CallTarget> target);

  // The target, which stays while the caller holds it; raises if it is closed or another process's.
  std::shared_ptr<CallTarget> Target() const;
  // Raises what is wrong with them.
  static CallOptions MakeOptions(const CallTarget& target, const CallTerms& terms,
                                 uint64_t input_size);

 private:
  pybind11::object Begin(PyObject* self, const FunctionHandle& function, const CallInput& input,
                         const CallTerms& terms,
                         const std::vector<UntypedReference>& references = {});
  static bool AwaitDriving(std::shared_ptr<CallTarget> target, absl::FunctionRef<bool()> done,
                           absl::FunctionRef<void(absl::Duration limit)> rest,
                           std::optional<double> timeout);

  const char* const what_;
  std::shared_ptr<CallTarget> target_;  // under the GIL; nullptr once closed
  const ForkMark mark_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_NATIVE_CALLER_H_
