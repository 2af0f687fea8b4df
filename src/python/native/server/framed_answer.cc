#include "src/python/native/server/framed_answer.h"

#include <cstring>

#include "src/python/native/frames/frame.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

py::object Framed(const char* name) {
  return py::module_::import("invoker._pickle.framed").attr(name);
}

int64_t TooSmall(invoker_call* call, size_t needed) {
  call->output_needed = needed;
  return INVOKER_OUTPUT_TOO_SMALL;
}

int64_t Answer(invoker_call* call, const Frame& frame) {
  if (frame.size() <= call->output_capacity) {
    frame.WriteTo(call->output);
    return static_cast<int64_t>(frame.size());
  }
  py::bytearray bytes;
  if (PyByteArray_Resize(bytes.ptr(), static_cast<Py_ssize_t>(frame.size())) != 0) {
    throw py::error_already_set();
  }
  frame.WriteTo(PyByteArray_AS_STRING(bytes.ptr()));
  const Frame where(FrameKind::kKept, Framed("keep")(bytes));
  if (where.size() > call->output_capacity) return TooSmall(call, frame.size());
  where.WriteTo(call->output);
  return static_cast<int64_t>(where.size());
}

}  // namespace

int64_t AnswerReturned(invoker_call* call, py::handle callable, py::handle result) {
  if (PyGen_Check(result.ptr()) || PyCoro_CheckExact(result.ptr())) {
    Framed("refuse")(callable, result);
  }
  return Answer(call, Frame(FrameKind::kReturned, result));
}

int64_t AnswerRaised(invoker_call* call, py::handle exception) {
  const int64_t answer = Answer(call, Frame(FrameKind::kRaised, Framed("raised")(exception)));
  call->services->count_failure(call);
  return answer;
}

bool IsFetch(absl::Span<const uint8_t> request) {
  constexpr uint8_t kFetch[] = {'I', 'N',           'V',
                                'P', /*version=*/1, static_cast<uint8_t>(FrameKind::kFetch)};
  return request.size() >= sizeof(kFetch) &&
         std::memcmp(request.data(), kFetch, sizeof(kFetch)) == 0;
}

int64_t AnswerFetch(invoker_call* call, const CallMemory& request) {
  CallMemory room(call->output, call->output_capacity, /*writable=*/true);
  const py::object size =
      Framed("fetch")(DecodeFrame(request.view()).value, py::handle(room.view()));
  if (!room.TakeBack()) throw py::value_error("the room for an answer is still in use");
  return size.cast<int64_t>();
}

}  // namespace invoker::python
