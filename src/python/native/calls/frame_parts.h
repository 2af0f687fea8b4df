// A request in several pieces of memory, of which a call puts together one.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_FRAME_PARTS_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_FRAME_PARTS_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <list>
#include <vector>

#include "absl/types/span.h"
#include "invoker/client.h"
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

  // The parts, with zeros between them where that aligns one.
  CallInput input() const { return CallInput(absl::MakeConstSpan(spans_)); }

 private:
  std::list<InputBuffer> parts_;  // which do not move
  std::vector<Bytes> spans_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_FRAME_PARTS_H_
