// The memory of a Python object, by the buffer protocol.

#ifndef INVOKER_SRC_PYTHON_NATIVE_BUFFER_H_
#define INVOKER_SRC_PYTHON_NATIVE_BUFFER_H_

#include <pybind11/pybind11.h>

#include <cstddef>

#include "absl/types/span.h"

namespace invoker::python {

// The bytes of a request. Holds an object's memory in place while it exists. Made and destroyed
// with the GIL; `bytes()` needs none.
class InputBuffer {
 public:
  // What is not C-contiguous, or what numpy has no buffer for (datetime64), is copied by
  // invoker._native.buffers.contiguous(). Throws a Python TypeError for what has no bytes or whose
  // bytes are pointers. nullptr: no bytes.
  explicit InputBuffer(PyObject* object);
  ~InputBuffer();
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  absl::Span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_ = {};
};

// Where a response goes. Holds the memory of an object by a memoryview, since that is what the
// caller gets of it in the end: asking numpy for a buffer is the dearest part of a call, and is
// done once. Threads as for InputBuffer.
class OutputBuffer {
 public:
  // Throws a Python TypeError if the object is not writable or not C-contiguous.
  explicit OutputBuffer(PyObject* object);

  absl::Span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view()->buf), static_cast<size_t>(view()->len)};
  }

  // The first `size` bytes, as a memoryview of format "B".
  pybind11::object Beginning(size_t size) &&;

 private:
  const Py_buffer* view() const { return PyMemoryView_GET_BUFFER(memory_view_.ptr()); }

  PyObject* object_;  // the caller's
  pybind11::object memory_view_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_BUFFER_H_
