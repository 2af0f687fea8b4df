// A request in several pieces of memory, which are put together in registered memory.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_FRAME_PARTS_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_FRAME_PARTS_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <list>

#include "absl/types/span.h"
#include "src/python/native/buffer.h"

namespace invoker::python {

// Holds the parts' memory in place while it exists. Made and destroyed with the GIL; the methods
// need none.
class FrameParts {
 public:
  // What each part's beginning is aligned to, from the beginning of the whole.
  static constexpr size_t kAlignment = 64;

  // `parts` is a sequence of buffers. Throws Python's exception.
  explicit FrameParts(pybind11::handle parts);

  // Of all parts, aligned, with nothing behind the last.
  size_t size() const { return size_; }

  // Copies the parts to where they belong; what is between them becomes zero. `target` has size()
  // bytes.
  void CopyTo(absl::Span<std::byte> target) const;

 private:
  std::list<InputBuffer> parts_;  // which do not move
  size_t size_ = 0;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_FRAME_PARTS_H_
