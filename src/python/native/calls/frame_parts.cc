#include "src/python/native/calls/frame_parts.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

constexpr std::byte kZeros[FrameParts::kAlignment] = {};

}  // namespace

FrameParts::FrameParts(py::handle parts) {
  size_t size = 0;
  for (const py::handle part : py::reinterpret_borrow<py::sequence>(parts)) {
    parts_.emplace_back(part.ptr());
    if (size % kAlignment != 0) {
      spans_.emplace_back(kZeros, kAlignment - size % kAlignment);
      size += spans_.back().size();
    }
    spans_.push_back(parts_.back().bytes());
    size += spans_.back().size();
  }
}

}  // namespace invoker::python
