// A call of a Python function that is a coroutine: it is answered when the coroutine ends.

#ifndef INVOKER_SRC_PYTHON_NATIVE_SERVER_ASYNC_CALL_H_
#define INVOKER_SRC_PYTHON_NATIVE_SERVER_ASYNC_CALL_H_

#include <pybind11/pybind11.h>

#include <string>

#include "invoker/function_abi.h"
#include "src/python/native/server/call_memory.h"

namespace invoker::python {

class PythonFunction;

// Made by a PythonFunction, and handed to invoker._native.event_loop. With the GIL.
class AsyncCall {
 public:
  // `call` has been deferred, and is this object's to answer. The function outlives it.
  AsyncCall(const PythonFunction* function, invoker_call* call);
  // Fails the call, if nothing else has answered it.
  ~AsyncCall();
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;

  // Reads the arguments and starts the function, on this thread: returns the coroutine; null if the
  // call has been answered instead. Once.
  pybind11::object Start();

  // Answers with what the coroutine has returned, or fails with what it has raised. Once.
  void Finish(pybind11::handle result);
  void Fail(pybind11::handle exception);

  // PythonFunction's, of this call.
  bool IsCancelled() const;
  pybind11::object Facts() const;
  pybind11::object FindArray(const std::string& reference) const;

 private:
  void Complete(int64_t returned);

  const PythonFunction* const function_;
  invoker_call* call_;  // nullptr: it has been answered
  CallMemory request_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SERVER_ASYNC_CALL_H_
