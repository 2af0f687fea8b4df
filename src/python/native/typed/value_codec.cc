#include "src/python/native/typed/value_codec.h"

#include <pybind11/numpy.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/python/native/buffer.h"
#include "src/python/native/typed/native_reference.h"

namespace invoker::python {
namespace {

namespace py = pybind11;
using Kind = ValueType::Kind;

// numpy's name for a number's type: f64 is f8.
std::string NumpyName(const ValueType& number) {
  return number.name == "bool" ? "?" : absl::StrCat(number.name.substr(0, 1), number.size);
}

// The layout of a number or a struct.
py::object DtypeOf(const ValueType& type) {
  const py::object dtype = py::module_::import("numpy").attr("dtype");
  if (type.kind == Kind::kNumber) return dtype(NumpyName(type));
  py::list fields;
  for (const ValueType& field : type.parts) {
    if (field.extent == 0) {
      fields.append(py::make_tuple(field.field, NumpyName(field)));
    } else {
      fields.append(py::make_tuple(field.field, NumpyName(field), py::make_tuple(field.extent)));
    }
  }
  return dtype(fields, py::arg("align") = true);
}

// What a message says of a value that is wrong.
std::string Describe(py::handle value) {
  if (py::hasattr(value, "dtype") && py::hasattr(value, "ndim")) {
    return absl::StrCat("an array of ", std::string(py::str(value.attr("dtype"))), " with ",
                        std::string(py::str(value.attr("ndim"))), " dimensions");
  }
  return Py_TYPE(value.ptr())->tp_name;
}

template <typename T>
void AddNumber(T number, Pieces* to) {
  uint64_t slot[(sizeof(T) + 7) / 8] = {};
  std::memcpy(slot, &number, sizeof(T));
  to->Add(slot, sizeof(slot));
}

template <typename T>
T NumberAt(const std::byte* at) {
  T number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}

bool IsArray(PyObject* object) { return py::detail::npy_api::get().PyArray_Check_(object); }

}  // namespace

ValueCodec::ValueCodec(ValueType type) : type_(std::move(type)) {
  switch (type_.kind) {
    case Kind::kArray:
      dtype_ = DtypeOf(type_.parts.front());
      break;
    case Kind::kStruct:
      dtype_ = DtypeOf(type_);
      break;
    case Kind::kList:
    case Kind::kOptional:
    case Kind::kTuple:
      for (const ValueType& part : type_.parts) parts_.emplace_back(part);
      break;
    default:
      break;
  }
}

void ValueCodec::Refuse(py::handle value) const {
  throw py::type_error(absl::StrCat("expected ", type_.ToString(), ", got ", Describe(value)));
}

void ValueCodec::RefuseBytes() const {
  throw py::value_error(absl::StrCat("the bytes are no ", type_.ToString(), ", or are cut short"));
}

void ValueCodec::Encode(py::handle value, Pieces* to) const {
  switch (type_.kind) {
    case Kind::kNone:
      if (!value.is_none()) Refuse(value);
      return;
    case Kind::kNumber:
      return EncodeNumber(value, to);
    case Kind::kArray:
      return EncodeArray(value, to);
    case Kind::kStruct:
      return EncodeStruct(value, to);
    case Kind::kMessage:
      return EncodeMessage(value, to);
    case Kind::kText: {
      if (PyUnicode_Check(value.ptr()) == 0) Refuse(value);
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
      if (text == nullptr) throw py::error_already_set();
      to->AddWord(static_cast<uint64_t>(size));
      return to->AddOf(py::reinterpret_borrow<py::object>(value), text, static_cast<size_t>(size));
    }
    case Kind::kBytes: {
      if (PyObject_CheckBuffer(value.ptr()) == 0) {
        if (EncodeReference(value, to)) return;
        Refuse(value);
      }
      // The copy of what is not contiguous, too, is the memoryview's.
      py::object view = py::reinterpret_steal<py::object>(
          PyMemoryView_GetContiguous(value.ptr(), PyBUF_READ, 'C'));
      if (!view) throw py::error_already_set();
      const Py_buffer* buffer = PyMemoryView_GET_BUFFER(view.ptr());
      to->AddWord(static_cast<uint64_t>(buffer->len));
      return to->AddOf(std::move(view), buffer->buf, static_cast<size_t>(buffer->len));
    }
    case Kind::kOptional:
      to->AddWord(value.is_none() ? 0 : 1);
      if (!value.is_none()) parts_.front().Encode(value, to);
      return;
    case Kind::kList:
    case Kind::kTuple:
      return EncodeAll(value, to);
  }
}

void ValueCodec::EncodeAll(py::handle values, Pieces* to) const {
  if (PyUnicode_Check(values.ptr()) != 0) Refuse(values);
  const auto list = py::reinterpret_steal<py::object>(PySequence_Fast(values.ptr(), ""));
  if (!list) {
    PyErr_Clear();
    Refuse(values);
  }
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(list.ptr()));
  PyObject** const items = PySequence_Fast_ITEMS(list.ptr());
  if (type_.kind == Kind::kList) {
    to->AddWord(count);
  } else if (count != parts_.size()) {
    throw py::type_error(absl::StrCat("expected ", type_.ToString(), ", got ", count, " values"));
  }
  for (size_t i = 0; i < count; ++i) {
    parts_[type_.kind == Kind::kList ? 0 : i].Encode(items[i], to);
  }
}

void ValueCodec::EncodeNumber(py::handle value, Pieces* to) const {
  PyObject* const object = value.ptr();
  switch (type_.name[0]) {
    case 'b': {
      const int truth =
          PyBool_Check(object) != 0 || py::hasattr(value, "dtype") ? PyObject_IsTrue(object) : -2;
      if (truth == -1) throw py::error_already_set();
      if (truth < 0) Refuse(value);
      return AddNumber(static_cast<uint8_t>(truth), to);
    }
    case 'i':
    case 'u': {
      const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object));
      if (!index) {
        PyErr_Clear();
        Refuse(value);
      }
      const bool is_signed = type_.name[0] == 'i';
      const uint32_t bits = 8 * type_.size;
      uint64_t word = 0;
      bool fits = false;
      if (is_signed) {
        const int64_t number = PyLong_AsLongLong(index.ptr());
        fits = bits == 64 ||
               (number >= -(int64_t{1} << (bits - 1)) && number < int64_t{1} << (bits - 1));
        word =
            static_cast<uint64_t>(number) & (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1);
      } else {
        word = PyLong_AsUnsignedLongLong(index.ptr());
        fits = bits == 64 || word < uint64_t{1} << bits;
      }
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        fits = false;
      }
      if (!fits) {
        throw py::value_error(
            absl::StrCat(std::string(py::str(index)), " is out of the range of ", type_.name));
      }
      return to->AddWord(word);
    }
    case 'f': {
      const double number = PyFloat_AsDouble(object);
      if (number == -1.0 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        Refuse(value);
      }
      if (type_.size == 8) return AddNumber(number, to);
      if (type_.size == 4) return AddNumber(static_cast<float>(number), to);
      const auto packed = py::module_::import("struct").attr("pack")("<e", number);
      const auto half = packed.cast<std::string>();
      return to->Add(half.data(), half.size());
    }
    default: {
      const Py_complex number = PyComplex_AsCComplex(object);
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        Refuse(value);
      }
      if (type_.size == 16) return AddNumber(number, to);
      const float parts[2] = {static_cast<float>(number.real), static_cast<float>(number.imag)};
      return to->Add(parts, sizeof(parts));
    }
  }
}

void ValueCodec::EncodeArray(py::handle value, Pieces* to) const {
  py::object array = py::reinterpret_borrow<py::object>(value);
  if (!IsArray(value.ptr())) {
    // A list of numbers is as good as an array, if it is one of the right type.
    if (PyList_Check(value.ptr()) == 0 && PyTuple_Check(value.ptr()) == 0) {
      if (EncodeReference(value, to)) return;
      Refuse(value);
    }
    array = py::module_::import("numpy").attr("asarray")(value);
  }
  const auto* proxy = py::detail::array_proxy(array.ptr());
  const bool right_type =
      proxy->descr == dtype_.ptr() ||
      py::detail::npy_api::get().PyArray_EquivTypes_(proxy->descr, dtype_.ptr());
  if (!right_type || proxy->nd != static_cast<int>(type_.dimensions)) Refuse(array);
  constexpr int kContiguous = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_;
  if ((proxy->flags & kContiguous) == 0) {
    array = py::module_::import("numpy").attr("ascontiguousarray")(array);
    proxy = py::detail::array_proxy(array.ptr());
  }
  size_t bytes = type_.parts.front().size;
  for (uint32_t i = 0; i < type_.dimensions; ++i) {
    to->AddWord(static_cast<uint64_t>(proxy->dimensions[i]));
    bytes *= static_cast<size_t>(proxy->dimensions[i]);
  }
  to->AddOf(std::move(array), proxy->data, bytes);
}

// False: it is none.
bool ValueCodec::EncodeReference(py::handle value, Pieces* to) const {
  const NativeReference* const reference = NativeReference::Find(value);
  if (reference == nullptr) return false;
  if (reference->type() != type_.ToString()) {
    throw py::type_error(
        absl::StrCat("expected ", type_.ToString(), ", got a reference to ", reference->type()));
  }
  if (reference->freed()) throw py::value_error("the reference has been freed");
  to->AddReference(reference->reference());
  return true;
}

void ValueCodec::EncodeStruct(py::handle value, Pieces* to) const {
  const py::module_ numpy = py::module_::import("numpy");
  if (py::hasattr(value, "dtype") && !py::object(value.attr("dtype")).equal(dtype_)) Refuse(value);
  py::object array;
  try {
    array = numpy.attr("array")(value, py::arg("dtype") = dtype_);
  } catch (py::error_already_set&) {
    Refuse(value);
  }
  if (py::cast<int>(array.attr("ndim")) != 0) Refuse(value);
  to->Add(py::detail::array_proxy(array.ptr())->data, type_.size);
}

void ValueCodec::EncodeMessage(py::handle value, Pieces* to) const {
  const py::object descriptor = py::getattr(value, "DESCRIPTOR", py::none());
  const py::object name = py::getattr(descriptor, "full_name", py::none());
  if (!py::isinstance<py::str>(name) || name.cast<std::string>() != type_.name) {
    if (!py::isinstance<py::str>(name)) Refuse(value);
    throw py::type_error(absl::StrCat("expected ", type_.ToString(), ", got a message of ",
                                      name.cast<std::string>()));
  }
  const py::object bytes = value.attr("SerializeToString")();
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.ptr(), &data, &size) != 0) throw py::error_already_set();
  to->AddWord(static_cast<uint64_t>(size));
  to->AddOf(bytes, data, static_cast<size_t>(size));
}

py::object ValueCodec::Decode(const Source& from) const {
  switch (type_.kind) {
    case Kind::kNone:
      return py::none();
    case Kind::kNumber:
      return DecodeNumber(from);
    case Kind::kArray:
      return DecodeArray(from);
    case Kind::kMessage:
      return DecodeMessage(from);
    case Kind::kStruct: {
      const std::byte* data = from.reader->Take(values_internal::Padded(type_.size));
      if (data == nullptr) RefuseBytes();
      const py::array array(py::reinterpret_borrow<py::dtype>(dtype_), std::vector<ssize_t>(),
                            std::vector<ssize_t>(), data);
      return array[py::tuple()];
    }
    case Kind::kText:
    case Kind::kBytes: {
      if (type_.kind == Kind::kBytes && from.reader->IsAtReference()) return DecodeReferred(from);
      uint64_t size = 0;
      if (!from.reader->TakeWord(&size)) RefuseBytes();
      const std::byte* data = from.reader->Take(size);
      if (data == nullptr) RefuseBytes();
      const auto* text = reinterpret_cast<const char*>(data);
      const auto length = static_cast<Py_ssize_t>(size);
      auto value = py::reinterpret_steal<py::object>(
          type_.kind == Kind::kText ? PyUnicode_DecodeUTF8(text, length, nullptr)
                                    : PyBytes_FromStringAndSize(text, length));
      if (value) return value;
      if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) throw py::error_already_set();
      PyErr_Clear();
      RefuseBytes();
    }
    case Kind::kOptional: {
      uint64_t there = 0;
      if (!from.reader->TakeWord(&there) || there > 1) RefuseBytes();
      return there == 0 ? py::none() : parts_.front().Decode(from);
    }
    case Kind::kList: {
      uint64_t count = 0;
      if (!from.reader->TakeWord(&count) || count > from.reader->left() / 8) RefuseBytes();
      py::list list(count);
      for (uint64_t i = 0; i < count; ++i) list[i] = parts_.front().Decode(from);
      return list;
    }
    case Kind::kTuple: {
      py::tuple tuple(parts_.size());
      for (size_t i = 0; i < parts_.size(); ++i) tuple[i] = parts_[i].Decode(from);
      return tuple;
    }
  }
  return py::none();
}

py::object ValueCodec::DecodeNumber(const Source& from) const {
  const std::byte* at = from.reader->Take(values_internal::Padded(type_.size));
  if (at == nullptr) RefuseBytes();
  PyObject* number = nullptr;
  switch (type_.name[0]) {
    case 'b':
      if (NumberAt<uint8_t>(at) > 1) RefuseBytes();
      number = PyBool_FromLong(NumberAt<uint8_t>(at));
      break;
    case 'i':
      number = PyLong_FromLongLong(type_.size == 8   ? NumberAt<int64_t>(at)
                                   : type_.size == 4 ? NumberAt<int32_t>(at)
                                   : type_.size == 2 ? NumberAt<int16_t>(at)
                                                     : NumberAt<int8_t>(at));
      break;
    case 'u':
      number = PyLong_FromUnsignedLongLong(type_.size == 8   ? NumberAt<uint64_t>(at)
                                           : type_.size == 4 ? NumberAt<uint32_t>(at)
                                           : type_.size == 2 ? NumberAt<uint16_t>(at)
                                                             : NumberAt<uint8_t>(at));
      break;
    case 'f':
      if (type_.size == 2) {
        const py::bytes half(reinterpret_cast<const char*>(at), 2);
        return py::module_::import("struct").attr("unpack")("<e", half)[py::int_(0)];
      }
      number = PyFloat_FromDouble(type_.size == 8 ? NumberAt<double>(at) : NumberAt<float>(at));
      break;
    default:
      number = type_.size == 16 ? PyComplex_FromCComplex(NumberAt<Py_complex>(at))
                                : PyComplex_FromDoubles(NumberAt<float>(at),
                                                        NumberAt<float>(at + sizeof(float)));
  }
  if (number == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(number);
}

// The data stays for as long as anything is a view of it.
py::object ValueCodec::DecodeReferred(const Source& from) const {
  ValueReader found(nullptr, 0);
  if (!from.reader->TakeReference(type_.ToString(), &found)) {
    if (from.found->problem().empty()) RefuseBytes();
    throw py::value_error(from.found->problem());
  }
  const py::capsule owner = from.found->TakeOwner();
  py::object value = Decode({&found, owner, /*writable=*/false, nullptr});
  if (found.left() != 0) RefuseBytes();
  return value;
}

py::object ValueCodec::DecodeArray(const Source& from) const {
  if (from.reader->IsAtReference()) return DecodeReferred(from);
  size_t shape[8];
  const std::byte* data =
      values_internal::TakeElements(from.reader, type_.parts.front().size, type_.dimensions, shape);
  if (data == nullptr) RefuseBytes();
  Py_intptr_t lengths[8];
  for (uint32_t i = 0; i < type_.dimensions; ++i) {
    if (shape[i] > PTRDIFF_MAX) RefuseBytes();
    lengths[i] = static_cast<Py_intptr_t>(shape[i]);
  }
  auto& api = py::detail::npy_api::get();
  // Numpy takes this reference.
  Py_INCREF(dtype_.ptr());
  constexpr int kFlags =
      py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  PyObject* array = api.PyArray_NewFromDescr_(
      api.PyArray_Type_, dtype_.ptr(), static_cast<int>(type_.dimensions), lengths, nullptr,
      const_cast<std::byte*>(data),
      from.writable ? kFlags | py::detail::npy_api::NPY_ARRAY_WRITEABLE_ : kFlags, nullptr);
  if (array == nullptr) throw py::error_already_set();
  auto result = py::reinterpret_steal<py::object>(array);
  if (api.PyArray_SetBaseObject_(
          array, py::reinterpret_borrow<py::object>(from.owner).release().ptr()) != 0) {
    throw py::error_already_set();
  }
  return result;
}

py::object ValueCodec::DecodeMessage(const Source& from) const {
  uint64_t size = 0;
  if (!from.reader->TakeWord(&size)) RefuseBytes();
  const std::byte* data = from.reader->Take(size);
  if (data == nullptr) RefuseBytes();
  const py::object type = py::module_::import("invoker._native.messages").attr("find")(type_.name);
  try {
    return type.attr("FromString")(
        py::bytes(reinterpret_cast<const char*>(data), static_cast<size_t>(size)));
  } catch (const py::error_already_set& error) {
    if (!error.matches(py::module_::import("google.protobuf.message").attr("DecodeError"))) throw;
    RefuseBytes();
  }
}

}  // namespace invoker::python
