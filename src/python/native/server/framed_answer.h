// Answers of functions of Python objects, as frames.

#ifndef INVOKER_SRC_PYTHON_NATIVE_SERVER_FRAMED_ANSWER_H_
#define INVOKER_SRC_PYTHON_NATIVE_SERVER_FRAMED_ANSWER_H_

#include <pybind11/pybind11.h>

#include <cstdint>

#include "absl/types/span.h"
#include "invoker/function_abi.h"
#include "src/python/native/server/call_memory.h"

namespace invoker::python {

// Each returns what the function of the call does. A frame that does not fit into the call's output
// is kept, by invoker._pickle.framed, until the caller has fetched it. With the GIL. Throw Python's
// exception.

// For the value that the callable has returned.
int64_t AnswerReturned(invoker_call* call, pybind11::handle callable, pybind11::handle result);
// For the exception that it has raised.
int64_t AnswerRaised(invoker_call* call, pybind11::handle exception);

// Whether a request asks for a part of an answer that is kept, and that part.
bool IsFetch(absl::Span<const uint8_t> request);
int64_t AnswerFetch(invoker_call* call, const CallMemory& request);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SERVER_FRAMED_ANSWER_H_
