#include "src/python/buffer.h"

#include <cstring>
#include <utility>

namespace invoker::python {
namespace {

namespace py = pybind11;

// Whether the bytes may be pointers to Python objects; certain only for a format without "O".
bool MayHoldObjects(const Py_buffer& view) {
  return view.format != nullptr && std::strchr(view.format, 'O') != nullptr;
}

}  // namespace

Buffer Buffer::Input(py::handle object) {
  Buffer buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer.view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0) {
    if (!MayHoldObjects(buffer.view_)) return buffer;
    PyBuffer_Release(&buffer.view_);
  } else {
    PyErr_Clear();
  }
  // Rare, so Python code decides what it is and says what is wrong with it.
  const py::object copy = py::module_::import("invoker._buffers").attr("contiguous")(object);
  if (PyObject_GetBuffer(copy.ptr(), &buffer.view_, PyBUF_SIMPLE) != 0) {
    throw py::error_already_set();
  }
  return buffer;
}

Buffer Buffer::Output(py::handle object) {
  Buffer buffer;
  constexpr int kFlags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE;
  if (PyObject_GetBuffer(object.ptr(), &buffer.view_, kFlags) != 0) {
    PyErr_Clear();
    throw py::type_error("out= must be a writable, C-contiguous buffer (bytearray, numpy array)");
  }
  if (MayHoldObjects(buffer.view_)) {
    throw py::type_error("out= must not hold Python objects: the response is plain bytes");
  }
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}

Buffer::~Buffer() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

}  // namespace invoker::python
