#include "src/python/native/typed/native_reference.h"

#include <utility>

namespace invoker::python {

namespace py = pybind11;

NativeReference::NativeReference(UntypedReference reference)
    : reference_(new UntypedReference(std::move(reference))) {}

NativeReference::~NativeReference() {
  // The threads that it needs are the parent's: leave it alone, for good.
  if (mark_.forked()) return;
  delete reference_;
}

const NativeReference* NativeReference::Find(py::handle value) {
  const py::object native = py::getattr(value, "_native_reference", py::none());
  return py::isinstance<NativeReference>(native) ? native.cast<const NativeReference*>() : nullptr;
}

py::bytes NativeReference::id() const {
  const UntypedReference::Id& id = reference_->id();
  return py::bytes(reinterpret_cast<const char*>(id.data()), id.size());
}

void NativeReference::Free() {
  if (!mark_.forked()) reference_->Free();
}

}  // namespace invoker::python
