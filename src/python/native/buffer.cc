#include "src/python/native/buffer.h"

#include <cstring>
#include <utility>

namespace invoker::python {
namespace {

namespace py = pybind11;

// Whether the bytes may be pointers to Python objects; certain only for a format without "O".
bool MayHoldObjects(const Py_buffer& view) {
  return view.format != nullptr && std::strchr(view.format, 'O') != nullptr;
}

// A flat one of unsigned bytes, as what Beginning returns.
bool IsPlain(const Py_buffer& view) {
  return view.ndim == 1 && (view.format == nullptr || std::strcmp(view.format, "B") == 0);
}

}  // namespace

InputBuffer::InputBuffer(PyObject* object) {
  if (object == nullptr) return;
  if (PyObject_GetBuffer(object, &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0) {
    if (!MayHoldObjects(view_)) return;
    PyBuffer_Release(&view_);
  } else {
    PyErr_Clear();
  }
  // Rare, so Python code decides what it is and says what is wrong with it.
  const py::object copy =
      py::module_::import("invoker._native.buffers").attr("contiguous")(py::handle(object));
  if (PyObject_GetBuffer(copy.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
}

InputBuffer::~InputBuffer() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

OutputBuffer::OutputBuffer(PyObject* object)
    : object_(object),
      memory_view_(py::reinterpret_steal<py::object>(PyMemoryView_FromObject(object))) {
  if (!memory_view_) PyErr_Clear();
  if (!memory_view_ || view()->readonly || !PyBuffer_IsContiguous(view(), 'C')) {
    throw py::type_error("out= must be a writable, C-contiguous buffer (bytearray, numpy array)");
  }
  if (MayHoldObjects(*view())) {
    throw py::type_error("out= must not hold Python objects: the response is plain bytes");
  }
}

py::object OutputBuffer::Beginning(size_t size) && {
  py::object all = std::move(memory_view_);
  const Py_buffer* view = PyMemoryView_GET_BUFFER(all.ptr());
  if (!IsPlain(*view)) {
    // memoryview.cast takes few formats, and Python code knows the others.
    all = py::module_::import("invoker._native.buffers").attr("byte_view")(py::handle(object_));
    view = PyMemoryView_GET_BUFFER(all.ptr());
  }
  if (static_cast<size_t>(view->len) == size) return all;
  PyObject* beginning = PySequence_GetSlice(all.ptr(), 0, static_cast<Py_ssize_t>(size));
  if (beginning == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(beginning);
}

}  // namespace invoker::python
