// The Python type invoker._native._invoker.BoundFunction: a function of a worker, as a callable.
//
// Written against Python's own C API: pybind11 looks up and converts the arguments of a call in
// more time than a whole call over shared memory takes beyond its two writes.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_BOUND_FUNCTION_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_BOUND_FUNCTION_H_

#include <Python.h>

namespace invoker::python {

// BoundFunction(native: NativeCaller, handle: FunctionHandle), both of which it keeps alive:
//   function(data=b"", *, timeout=None, response_capacity=None, out=None, dtype=None, retry=0)
//   function.call(data, timeout, response_capacity, out, dtype, retry): the same, by position only
//   function.handle
// Never changes. With the GIL, like all of Python; released while a call waits.

// Once, when the module is imported, after NativeCaller and FunctionHandle have been declared. A
// new reference to the type, or nullptr with a Python exception.
PyObject* MakeBoundFunctionType();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_BOUND_FUNCTION_H_
