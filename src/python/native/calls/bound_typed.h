// The Python type invoker._native._invoker.BoundTyped: a typed function of a worker, as a callable.
//
// Written against Python's own C API, for the reason that bound_function.h gives.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_BOUND_TYPED_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_BOUND_TYPED_H_

#include <Python.h>

namespace invoker::python {

// BoundTyped(native: NativeCaller, handle: FunctionHandle, signature: Signature, timeout,
// response_capacity, retry), the first three of which it keeps alive:
//   function(*arguments)
//   function.handle
// Never changes. With the GIL, like all of Python; released while a call waits.

// Once, when the module is imported, after the types of its arguments have been declared. A new
// reference to the type, or nullptr with a Python exception.
PyObject* MakeBoundTypedType();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_BOUND_TYPED_H_
