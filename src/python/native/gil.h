// Running C++ without the GIL.
//
// pybind11's gil_scoped_release takes the GIL back in a destructor. While the interpreter shuts
// down, taking it ends the thread by unwinding, which a destructor may not do: the process would
// abort. So this takes it back in plain code.

#ifndef INVOKER_SRC_PYTHON_NATIVE_GIL_H_
#define INVOKER_SRC_PYTHON_NATIVE_GIL_H_

#include <Python.h>

#include <exception>
#include <optional>
#include <utility>

namespace invoker::python {

// Calls `f` without the GIL and returns its result. The caller holds the GIL, before and after. `f`
// may throw.
template <typename F>
auto WithoutGil(F&& f) {
  std::optional<decltype(f())> result;
  std::exception_ptr error;
  PyThreadState* const state = PyEval_SaveThread();
  try {
    result.emplace(std::forward<F>(f)());
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  PyEval_RestoreThread(state);
  if (error != nullptr) std::rethrow_exception(error);
  return *std::move(result);
}

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_GIL_H_
