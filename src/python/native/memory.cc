#include "src/python/native/memory.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invoker/call_fate.h"

namespace invoker::python {
namespace {

// The object behind a memoryview. Python code meets it only as `view.obj`.
struct MemoryObject {
  PyObject_HEAD;
  Memory memory;
};

PyTypeObject* memory_type = nullptr;

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<MemoryObject*>(self)->memory.~Memory();
  type->tp_free(self);
  Py_DECREF(type);
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Memory& memory = reinterpret_cast<MemoryObject*>(self)->memory;
  return PyBuffer_FillInfo(view, self, memory.data(), static_cast<Py_ssize_t>(memory.size()),
                           /*readonly=*/0, flags);
}

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
    {0, nullptr},
};

PyType_Spec spec = {
    "invoker._native._invoker.Memory",
    sizeof(MemoryObject),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    slots,
};

}  // namespace

absl::StatusOr<Memory> Memory::OfSize(size_t size) {
  Memory memory;
  // Never nullptr, since a buffer of Python's must point somewhere.
  memory.data_.reset(static_cast<std::byte*>(std::malloc(size == 0 ? 1 : size)));
  if (memory.data_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("there is no memory for ", size, " bytes"));
  }
  memory.size_ = size;
  return memory;
}

absl::StatusOr<Memory> Memory::CopyOf(absl::Span<const std::byte> bytes) {
  absl::StatusOr<Memory> memory = OfSize(bytes.size());
  if (!memory.ok()) {
    return WithFate(absl::ResourceExhaustedError(absl::StrCat(
                        "there is no memory for a response of ", bytes.size(), " bytes")),
                    CallFate::kExecuted);
  }
  if (!bytes.empty()) std::memcpy(memory->data(), bytes.data(), bytes.size());
  return memory;
}

PyObject* Memory::IntoView() && {
  PyObject* self = memory_type->tp_alloc(memory_type, 0);
  if (self == nullptr) return nullptr;
  new (&reinterpret_cast<MemoryObject*>(self)->memory) Memory(std::move(*this));
  PyObject* view = PyMemoryView_FromObject(self);
  Py_DECREF(self);
  return view;
}

bool PrepareMemoryType() {
  memory_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return memory_type != nullptr;
}

}  // namespace invoker::python
