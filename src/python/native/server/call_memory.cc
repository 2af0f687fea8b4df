#include "src/python/native/server/call_memory.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// What the views are of. Counts the buffers that it has given out: a memoryview and all of its
// slices hold one together, and each memoryview made of an array over them another.
struct CallMemoryObject {
  PyObject_HEAD;
  void* data;  // nullptr once the call has ended
  Py_ssize_t size;
  bool writable;
  Py_ssize_t exports;
};

PyTypeObject* call_memory_type = nullptr;

CallMemoryObject* Cast(PyObject* self) { return reinterpret_cast<CallMemoryObject*>(self); }

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  CallMemoryObject* memory = Cast(self);
  if (memory->data == nullptr) {
    PyErr_SetString(PyExc_BufferError, "this memory was that of a call, which has ended");
    return -1;
  }
  const int readonly = memory->writable ? 0 : 1;
  if (PyBuffer_FillInfo(view, self, memory->data, memory->size, readonly, flags) != 0) return -1;
  ++memory->exports;
  return 0;
}

void ReleaseBuffer(PyObject* self, Py_buffer*) { --Cast(self)->exports; }

// Even if the program has turned automatic collection off.
void CollectGarbage() {
  PyObject* module = PyImport_ImportModule("gc");
  PyObject* collected =
      module == nullptr ? nullptr : PyObject_CallMethod(module, "collect", nullptr);
  if (collected == nullptr) PyErr_Clear();
  Py_XDECREF(collected);
  Py_XDECREF(module);
}

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(ReleaseBuffer)},
    {0, nullptr},
};

PyType_Spec spec = {
    "invoker._native._invoker.CallMemory",
    sizeof(CallMemoryObject),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    slots,
};

}  // namespace

CallMemory::CallMemory(void* data, size_t size, bool writable) {
  memory_ = call_memory_type->tp_alloc(call_memory_type, 0);
  if (memory_ == nullptr) throw py::error_already_set();
  Cast(memory_)->data = data;
  Cast(memory_)->size = static_cast<Py_ssize_t>(size);
  Cast(memory_)->writable = writable;
  view_ = PyMemoryView_FromObject(memory_);
  if (view_ == nullptr) {
    Py_CLEAR(memory_);
    throw py::error_already_set();
  }
}

CallMemory::~CallMemory() {
  Py_XDECREF(view_);
  Cast(memory_)->data = nullptr;
  Py_DECREF(memory_);
}

bool CallMemory::TakeBack() {
  if (Py_REFCNT(view_) > 1) {
    // Not possible while an array is over it, which the count below then tells.
    PyObject* released = PyObject_CallMethod(view_, "release", nullptr);
    if (released == nullptr) PyErr_Clear();
    Py_XDECREF(released);
  }
  Py_CLEAR(view_);
  if (Cast(memory_)->exports == 0) return true;
  CollectGarbage();
  return Cast(memory_)->exports == 0;
}

bool PrepareCallMemoryType() {
  call_memory_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return call_memory_type != nullptr;
}

}  // namespace invoker::python
