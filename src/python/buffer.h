// The memory of a Python object, by the buffer protocol.

#ifndef INVOKER_SRC_PYTHON_BUFFER_H_
#define INVOKER_SRC_PYTHON_BUFFER_H_

#include <pybind11/pybind11.h>

#include <cstddef>

#include "absl/types/span.h"

namespace invoker::python {

// Holds an object's memory in place while it exists. Made and destroyed with the GIL; `bytes()`
// needs none.
class Buffer {
 public:
  // For reading. What is not C-contiguous, or what numpy has no buffer for (datetime64), is copied
  // by invoker._buffers.contiguous(). Throws a Python TypeError for what has no bytes or whose
  // bytes are pointers.
  static Buffer Input(pybind11::handle object);

  // For writing. Throws a Python TypeError if the object is not writable or not C-contiguous.
  static Buffer Output(pybind11::handle object);

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();

  absl::Span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Buffer() = default;

  Py_buffer view_ = {};
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_BUFFER_H_
