// The arguments and the result of a typed function as bytes, and back.

#ifndef INVOKER_SRC_PYTHON_NATIVE_TYPED_SIGNATURE_CODEC_H_
#define INVOKER_SRC_PYTHON_NATIVE_TYPED_SIGNATURE_CODEC_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "src/invoke/function/signature.h"
#include "src/python/native/typed/pieces.h"
#include "src/python/native/typed/value_codec.h"

namespace invoker::python {

// With the GIL. Methods throw Python's exceptions: TypeError and ValueError say which argument it
// was, what was wanted, and what was there.
class SignatureCodec {
 public:
  // Throws Python's ValueError if the text is no signature.
  static std::unique_ptr<SignatureCodec> Parse(const std::string& text);

  // The canonical text.
  const std::string& text() const { return text_; }

  // `function` is its name, for errors.
  void EncodeArguments(const std::string& function, absl::Span<PyObject* const> arguments,
                       Pieces* to) const;
  // `call` has the request, and finds the data that references stand for.
  pybind11::tuple DecodeArguments(const invoker_call& call, pybind11::handle owner) const;
  void EncodeResult(pybind11::handle result, Pieces* to) const;
  // Arrays are writable.
  pybind11::object DecodeResult(absl::Span<const std::byte> bytes, pybind11::handle owner) const;

 private:
  explicit SignatureCodec(const Signature& signature);

  const std::string text_;
  std::vector<ValueCodec> parameters_;
  const ValueCodec result_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_TYPED_SIGNATURE_CODEC_H_
