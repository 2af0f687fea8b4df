// Python calls as bytes: a pickle, and beside it the memory of arrays.
//
// A frame is, from its first byte:
//
//   magic     4 bytes, "INVP"
//   version   1 byte, 1
//   kind      1 byte
//   zero      2 bytes
//   count     4 bytes: buffers
//   zero      4 bytes
//   lengths   8 bytes each: of the pickle, and of each buffer
//   pickle    at the next multiple of 64
//   buffers   each at the next multiple of 64
//
// all little-endian. The pickle has protocol 5, and its out-of-band buffers are the frame's, in
// order. So an array is copied once on its way into a frame, and arrays that come out of one are
// views of the frame's memory. invoker/_pickle/frames.py says what each kind holds.

#ifndef INVOKER_SRC_PYTHON_NATIVE_FRAMES_FRAME_H_
#define INVOKER_SRC_PYTHON_NATIVE_FRAMES_FRAME_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "invoker/client.h"

namespace invoker::python {

enum class FrameKind : uint8_t { kCall = 1, kFetch, kReturned, kRaised, kKept };

// A frame that is to be sent. Holds the memory of the value's arrays in place. Made and destroyed
// with the GIL; the methods need none.
class Frame {
 public:
  // Throws Python's exception if the value cannot be pickled.
  Frame(FrameKind kind, pybind11::handle value);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  size_t size() const { return size_; }
  // All of it, in the places where its parts are.
  CallInput input() const { return CallInput(absl::MakeConstSpan(spans_)); }
  // Writes all of it, size() bytes.
  void WriteTo(void* to) const;

  // A list of the references to stored data in the value, which the call needs until it has ended.
  const pybind11::object& references() const { return references_; }

 private:
  void AddPart(const Bytes& part);

  absl::InlinedVector<std::byte, 64> head_;
  pybind11::object pickle_;
  absl::InlinedVector<pybind11::object, 2> buffers_;  // memoryviews
  pybind11::object references_;
  absl::InlinedVector<Bytes, 4> spans_;
  size_t size_ = 0;
};

struct DecodedFrame {
  FrameKind kind;  // the sender's choice, so it may have no name here
  pybind11::object value;
};

// Reads a frame from the memoryview of its bytes. Arrays in the value are views of that memory, and
// read-only if it is. Throws Python's NoFrame, a ValueError, for bytes that are none, and what
// unpickling raises. Unpickling runs code of the sender's choice. With the GIL.
DecodedFrame DecodeFrame(pybind11::handle view);

// Makes the type of the exception NoFrame, once, when the module is imported. False with a Python
// exception.
bool PrepareFrames();
pybind11::handle NoFrameType();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_FRAMES_FRAME_H_
