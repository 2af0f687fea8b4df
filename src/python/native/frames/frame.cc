#include "src/python/native/frames/frame.h"

#include <cstring>
#include <initializer_list>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/python/native/imported.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

constexpr size_t kAlignment = 64;
constexpr std::byte kZeros[kAlignment] = {};

// The beginning of a frame, as it is on the wire. Lengths follow.
struct Head {
  char magic[4];
  uint8_t version;
  uint8_t kind;
  uint16_t unused;
  uint32_t count;  // buffers
  uint32_t reserved;
};
static_assert(sizeof(Head) == 16);

constexpr Head kHead = {{'I', 'N', 'V', 'P'}, 1, 0, 0, 0, 0};

PyObject* no_frame_type = nullptr;

size_t Aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

[[noreturn]] void RaiseNoFrame(const char* format, unsigned long long first,
                               unsigned long long second = 0) {
  PyErr_Format(no_frame_type, format, first, second);
  throw py::error_already_set();
}

py::object Steal(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

// The names of keyword arguments, which live as long as the process. Under the GIL.
PyObject* Keywords(PyObject** names, std::initializer_list<const char*> texts) {
  if (*names != nullptr) return *names;
  py::tuple made(texts.size());
  size_t i = 0;
  for (const char* text : texts) made[i++] = py::str(text);
  return *names = made.release().ptr();
}

// Whether a pickle names something of the program itself, which the other side does not have.
bool RefersToMain(py::handle pickle) {
  const std::string_view text(PyBytes_AS_STRING(pickle.ptr()), PyBytes_GET_SIZE(pickle.ptr()));
  return text.find("__main__") != std::string_view::npos;
}

// pickle.dumps with protocol 5. None if it cannot pickle this.
py::object Pickle(py::handle value, const py::list& buffers) {
  static Imported dumps("pickle", "dumps");
  static PyObject* names = nullptr;
  static PyObject* const protocol = PyLong_FromLong(5);
  const py::object append = Steal(PyObject_GetAttrString(buffers.ptr(), "append"));
  PyObject* arguments[] = {value.ptr(), protocol, append.ptr()};
  const auto pickle = py::reinterpret_steal<py::object>(PyObject_Vectorcall(
      dumps.get(), arguments, 1, Keywords(&names, {"protocol", "buffer_callback"})));
  if (pickle) return pickle;
  static Imported pickling_error("pickle", "PicklingError");
  py::error_already_set error;
  if (!error.matches(pickling_error.get()) && !error.matches(PyExc_AttributeError) &&
      !error.matches(PyExc_TypeError)) {
    throw error;
  }
  return py::none();
}

py::object TakeReferences() {
  static Imported take("invoker._pickle.references", "take");
  return Steal(PyObject_CallNoArgs(take.get()));
}

std::pair<py::object, py::list> PickleByValue(py::handle value, const py::object& pickle,
                                              const py::list& buffers) {
  static Imported by_value("invoker._pickle.frames", "by_value");
  const py::tuple made = py::handle(by_value.get())(value, pickle, buffers);
  return {made[0], made[1]};
}

Bytes BytesOf(py::handle view) {
  const Py_buffer* const buffer = PyMemoryView_GET_BUFFER(view.ptr());
  return {static_cast<const std::byte*>(buffer->buf), static_cast<size_t>(buffer->len)};
}

py::object Unpickle(py::handle pickle, const py::list& buffers) {
  static Imported loads("pickle", "loads");
  static PyObject* names = nullptr;
  PyObject* arguments[] = {pickle.ptr(), buffers.ptr()};
  return Steal(PyObject_Vectorcall(loads.get(), arguments, 1, Keywords(&names, {"buffers"})));
}

}  // namespace

Frame::Frame(FrameKind kind, py::handle value) {
  // Those that something else has pickled on this thread.
  TakeReferences();
  py::list buffers;
  pickle_ = Pickle(value, buffers);
  if (pickle_.is_none() || RefersToMain(pickle_)) {
    std::tie(pickle_, buffers) = PickleByValue(value, pickle_, buffers);
  }
  references_ = TakeReferences();
  for (const py::handle buffer : buffers) {
    buffers_.push_back(PyMemoryView_Check(buffer.ptr()) != 0
                           ? py::reinterpret_borrow<py::object>(buffer)
                           : Steal(PyObject_CallMethod(buffer.ptr(), "raw", nullptr)));
  }
  const Bytes pickle(reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(pickle_.ptr())),
                     static_cast<size_t>(PyBytes_GET_SIZE(pickle_.ptr())));
  Head head = kHead;
  head.kind = static_cast<uint8_t>(kind);
  head.count = static_cast<uint32_t>(buffers_.size());
  head_.resize(sizeof(head) + sizeof(uint64_t) * (1 + buffers_.size()));
  std::memcpy(head_.data(), &head, sizeof(head));
  std::byte* length_at = head_.data() + sizeof(head);
  const auto add_length = [&length_at](uint64_t length) {
    std::memcpy(length_at, &length, sizeof(length));
    length_at += sizeof(length);
  };
  add_length(pickle.size());
  for (const py::object& buffer : buffers_) add_length(BytesOf(buffer).size());
  AddPart(head_);
  AddPart(pickle);
  for (const py::object& buffer : buffers_) AddPart(BytesOf(buffer));
}

void Frame::AddPart(const Bytes& part) {
  if (const size_t padding = Aligned(size_) - size_; padding > 0) {
    spans_.emplace_back(kZeros, padding);
    size_ += padding;
  }
  spans_.push_back(part);
  size_ += part.size();
}

void Frame::WriteTo(void* to) const {
  auto* at = static_cast<std::byte*>(to);
  for (const Bytes& span : spans_) {
    if (!span.empty()) std::memcpy(at, span.data(), span.size());
    at += span.size();
  }
}

DecodedFrame DecodeFrame(py::handle view) {
  if (PyMemoryView_Check(view.ptr()) == 0 ||
      PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(view.ptr()), 'C') == 0 ||
      PyMemoryView_GET_BUFFER(view.ptr())->itemsize != 1) {
    throw py::type_error("a frame is read from a memoryview of bytes");
  }
  const Bytes frame = BytesOf(view);
  Head head;
  if (frame.size() < sizeof(head) + sizeof(uint64_t)) {
    RaiseNoFrame("%llu bytes are too few for a frame of a Python call", frame.size());
  }
  std::memcpy(&head, frame.data(), sizeof(head));
  if (std::memcmp(head.magic, kHead.magic, sizeof(head.magic)) != 0) {
    RaiseNoFrame(
        "these bytes are no frame of a Python call: the other side speaks another convention", 0);
  }
  if (head.version != kHead.version) {
    RaiseNoFrame("the frame has version %llu, and this side speaks version %llu", head.version,
                 kHead.version);
  }
  const size_t lengths = sizeof(head);
  size_t end = lengths + sizeof(uint64_t) * (1 + size_t{head.count});
  if (end > frame.size()) {
    RaiseNoFrame("the frame is cut short: %llu buffers in %llu bytes", head.count, frame.size());
  }
  py::object pickle;
  py::list buffers;
  for (size_t i = 0; i <= head.count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, frame.data() + lengths + i * sizeof(length), sizeof(length));
    const size_t begin = Aligned(end);
    if (begin > frame.size() || length > frame.size() - begin) {
      RaiseNoFrame("the frame is cut short: it has %llu bytes, and a part of %llu does not fit",
                   frame.size(), length);
    }
    end = begin + length;
    py::object piece = Steal(PySequence_GetSlice(view.ptr(), static_cast<Py_ssize_t>(begin),
                                                 static_cast<Py_ssize_t>(end)));
    if (i == 0) {
      pickle = std::move(piece);
    } else {
      buffers.append(std::move(piece));
    }
  }
  return {static_cast<FrameKind>(head.kind), Unpickle(pickle, buffers)};
}

bool PrepareFrames() {
  no_frame_type = PyErr_NewExceptionWithDoc("invoker._native._invoker.NoFrame",
                                            "Bytes that are no frame.", PyExc_ValueError, nullptr);
  return no_frame_type != nullptr;
}

py::handle NoFrameType() { return no_frame_type; }

}  // namespace invoker::python
