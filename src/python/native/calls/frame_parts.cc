#include "src/python/native/calls/frame_parts.h"

#include <cstring>

namespace invoker::python {
namespace {

namespace py = pybind11;

size_t Aligned(size_t offset) {
  return (offset + FrameParts::kAlignment - 1) / FrameParts::kAlignment * FrameParts::kAlignment;
}

}  // namespace

FrameParts::FrameParts(py::handle parts) {
  for (const py::handle part : py::reinterpret_borrow<py::sequence>(parts)) {
    parts_.emplace_back(part.ptr());
    size_ = Aligned(size_) + parts_.back().bytes().size();
  }
}

void FrameParts::CopyTo(absl::Span<std::byte> target) const {
  size_t offset = 0;
  for (const InputBuffer& part : parts_) {
    const absl::Span<const std::byte> bytes = part.bytes();
    const size_t begin = Aligned(offset);
    if (begin > offset) std::memset(target.data() + offset, 0, begin - offset);
    if (!bytes.empty()) std::memcpy(target.data() + begin, bytes.data(), bytes.size());
    offset = begin + bytes.size();
  }
}

}  // namespace invoker::python
