// For functions that Python calls by its own C API.

#ifndef INVOKER_SRC_PYTHON_NATIVE_GUARDED_H_
#define INVOKER_SRC_PYTHON_NATIVE_GUARDED_H_

#include <pybind11/pybind11.h>

#include <exception>
#include <new>

namespace invoker::python {

// Runs `body`, which returns a new reference, and turns what it throws into Python's exception.
// Whatever else passes is Python ending this thread, and must pass.
template <typename Body>
PyObject* Guarded(Body&& body) {
  try {
    return body();
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const pybind11::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_GUARDED_H_
