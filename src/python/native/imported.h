// Something of a Python module, looked up once.

#ifndef INVOKER_SRC_PYTHON_NATIVE_IMPORTED_H_
#define INVOKER_SRC_PYTHON_NATIVE_IMPORTED_H_

#include <pybind11/pybind11.h>

namespace invoker::python {

// A static variable, which looks up at its first use. With the GIL. Keeps what it has found for as
// long as the process lives.
class Imported {
 public:
  constexpr Imported(const char* module, const char* name) : module_(module), name_(name) {}

  // Borrowed. Throws Python's exception.
  PyObject* get() {
    if (object_ == nullptr) {
      pybind11::object found = pybind11::module_::import(module_).attr(name_);
      // Another thread may have found it during the import.
      if (object_ == nullptr) object_ = found.release().ptr();
    }
    return object_;
  }

 private:
  const char* const module_;
  const char* const name_;
  PyObject* object_ = nullptr;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_IMPORTED_H_
