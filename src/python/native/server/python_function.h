// Python callables as functions of a worker (invoker/function.h).

#ifndef INVOKER_SRC_PYTHON_NATIVE_SERVER_PYTHON_FUNCTION_H_
#define INVOKER_SRC_PYTHON_NATIVE_SERVER_PYTHON_FUNCTION_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "src/invoke/function/function_registry.h"
#include "src/python/native/server/call_memory.h"
#include "src/python/native/typed/signature_codec.h"

namespace invoker::python {

// A callable, of one of three forms:
//   plain:  callable(request) returns bytes-like or None
//   framed: callable(*arguments, **keywords) of Python objects, which come and go in frames
//   typed:  callable(*arguments) returns a result; both are what its signature says, and arrays
//           among the arguments are read-only views of the request
// `request` is a read-only memoryview of the request in the window. It ends with the call: a call
// fails whose function keeps memory of it.
//
// Made and destroyed with the GIL; outlives the worker that runs its entry. An executor's thread
// takes the GIL for the duration of each call, and keeps its Python thread state until it ends.
class PythonFunction {
 public:
  enum class Form { kPlain, kFramed, kTyped };

  // `coroutine`: the callable returns one, whose result is the answer. It runs on the thread of
  // invoker._native.event_loop, and the executor runs other functions meanwhile.
  PythonFunction(pybind11::object callable, Form form, bool coroutine = false)
      : callable_(std::move(callable)), form_(form), coroutine_(coroutine) {}
  // A typed one.
  PythonFunction(pybind11::object callable, std::unique_ptr<const SignatureCodec> signature,
                 bool coroutine = false)
      : callable_(std::move(callable)),
        form_(Form::kTyped),
        coroutine_(coroutine),
        signature_(std::move(signature)) {}
  PythonFunction(const PythonFunction&) = delete;
  PythonFunction& operator=(const PythonFunction&) = delete;

  // What a registry takes. An exception that leaves the callable is a failed call whose message is
  // what invoker._native.failures.describe makes of it.
  FunctionEntry Entry(std::string name, std::string doc, std::string library,
                      uint32_t concurrency = 0);

  // Whether this thread is inside such a function.
  static bool IsRunning();
  // Whether nobody waits any more for the answer of the function that this thread runs.
  static bool IsCancelled();
  // (tenant, call id, seconds left or None) of the call that this thread runs; None outside one.
  static pybind11::object Facts();
  static pybind11::object FactsOf(const invoker_call* call);
  // python::FindArray, for the call that this thread runs.
  static pybind11::object FindArray(const std::string& reference);

  // For AsyncCall, with the GIL.
  // Calls the callable. INVOKER_DEFERRED, and `result` is what it has returned; else the call's
  // answer. Throws nothing.
  int64_t Begin(invoker_call* call, const CallMemory& request, pybind11::object* result) const;
  // Writes the callable's result to the call's output; or what it has raised. Throw Python's
  // exceptions.
  int64_t AnswerWith(invoker_call* call, pybind11::handle result) const;
  int64_t FailWith(invoker_call* call, pybind11::handle exception) const;
  // What `answer` returns, or the failure that it throws, once `request` is taken back. Throws
  // nothing.
  int64_t End(invoker_call* call, CallMemory* request, absl::FunctionRef<int64_t()> answer) const;

 private:
  // They refer to the request.
  struct Arguments {
    pybind11::object positional;
    pybind11::object keyword;  // null: none
  };

  static int64_t Call(invoker_call* call);
  int64_t CallWithGil(invoker_call* call) const;
  int64_t StartWithGil(invoker_call* call, invoker_call* deferred) const;
  // Whether the call asks for a part of an earlier one's answer, and runs no function.
  bool IsKeptAnswer(const invoker_call& call) const;
  // These throw Python's exceptions.
  Arguments ArgumentsOf(invoker_call* call, const CallMemory& request) const;
  static Arguments FramedArguments(const CallMemory& request);
  pybind11::object Run(const Arguments& arguments) const;
  // What `body` returns. What it throws, too, is an answer of a framed function.
  int64_t Answered(invoker_call* call, absl::FunctionRef<int64_t()> body) const;

  const pybind11::object callable_;
  const Form form_;
  const bool coroutine_;
  const std::unique_ptr<const SignatureCodec> signature_;  // a typed one's
};

// Once, when the module is imported. False with a Python exception.
bool PreparePythonFunctions();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SERVER_PYTHON_FUNCTION_H_
