// Python values as the bytes of a typed call, and back: docs/reference/typed_calls.md.

#ifndef INVOKER_SRC_PYTHON_NATIVE_TYPED_VALUE_CODEC_H_
#define INVOKER_SRC_PYTHON_NATIVE_TYPED_VALUE_CODEC_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <vector>

#include "invoker/values.h"
#include "src/invoke/function/signature.h"
#include "src/python/native/typed/found_data.h"
#include "src/python/native/typed/pieces.h"

namespace invoker::python {

// Values of one type. With the GIL. Methods throw Python's exceptions: TypeError and ValueError say
// what was wanted and what was there.
class ValueCodec {
 public:
  // ImportError: arrays and structs need numpy.
  explicit ValueCodec(ValueType type);

  void Encode(pybind11::handle value, Pieces* to) const;

  // Where values are read from. Arrays are views of it.
  struct Source {
    ValueReader* reader;
    pybind11::handle owner;  // keeps the memory in place
    bool writable;           // whether arrays are
    FoundData* found;        // the reader's context, if it finds what references stand for
  };
  // ValueError if the bytes are no such value.
  pybind11::object Decode(const Source& from) const;

  const ValueType& type() const { return type_; }

 private:
  void EncodeNumber(pybind11::handle value, Pieces* to) const;
  void EncodeArray(pybind11::handle value, Pieces* to) const;
  bool EncodeReference(pybind11::handle value, Pieces* to) const;
  void EncodeStruct(pybind11::handle value, Pieces* to) const;
  void EncodeMessage(pybind11::handle value, Pieces* to) const;
  void EncodeAll(pybind11::handle values, Pieces* to) const;
  pybind11::object DecodeNumber(const Source& from) const;
  pybind11::object DecodeArray(const Source& from) const;
  pybind11::object DecodeReferred(const Source& from) const;
  pybind11::object DecodeMessage(const Source& from) const;
  [[noreturn]] void Refuse(pybind11::handle value) const;
  [[noreturn]] void RefuseBytes() const;

  ValueType type_;
  pybind11::object dtype_;         // an array's elements', or a struct's
  std::vector<ValueCodec> parts_;  // a list's, an optional's or a tuple's
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_TYPED_VALUE_CODEC_H_
