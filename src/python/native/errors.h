// Statuses as Python exceptions.

#ifndef INVOKER_SRC_PYTHON_NATIVE_ERRORS_H_
#define INVOKER_SRC_PYTHON_NATIVE_ERRORS_H_

#include <pybind11/pybind11.h>

#include "absl/status/status.h"

namespace invoker::python {

// The exception for a status that is not OK: an instance of a subclass of invoker.InvokerError.
// Needs the GIL.
pybind11::object MakeException(const absl::Status& status);

// Raises it.
[[noreturn]] void Raise(const absl::Status& status);
// The same for a call that has not left.
[[noreturn]] void RaiseNotSent(absl::Status status);

// For a wait with CallOptions::interrupted: raises what a signal handler has raised meanwhile, or
// else the status if it is an error.
void RaiseUnlessOk(const absl::Status& status);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_ERRORS_H_
