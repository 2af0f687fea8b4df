// The Python type _invoker.StartedCall: a call that has been started, and its result. What futures
// are made of, in invoker/_calls/futures.py.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_STARTED_CALL_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_STARTED_CALL_H_

#include <Python.h>

#include <optional>

#include "src/python/native/calls/call_target.h"
#include "src/python/native/calls/pending_call.h"

namespace invoker::python {

class NativeCaller;

// Once, when the module is imported: the type, a new reference; nullptr with a Python exception.
PyObject* MakeStartedCallType();

// Takes the caller's share of `pending`. `native_object` is the Python object of `native`. A new
// reference; throws Python's exception.
PyObject* MakeStartedCall(PyObject* native_object, NativeCaller* native, PendingCall* pending,
                          CallHandle handle);

// Waits until there is something to take, and drives the calls of this StartedCall's caller
// meanwhile, but no longer than `limit` seconds; with None, does not drive, and has no limit.
// Signals are looked at as in NativeCaller::Call. Throws Python's exception.
void AwaitQueue(const EndedQueue& queue, PyObject* started_call, std::optional<double> limit);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_STARTED_CALL_H_
