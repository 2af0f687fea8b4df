#include "src/python/native/typed/signature_codec.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "invoker/values.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

}  // namespace

SignatureCodec::SignatureCodec(const Signature& signature)
    : text_(signature.ToString()), result_(signature.result) {
  for (const ValueType& parameter : signature.parameters) parameters_.emplace_back(parameter);
}

std::unique_ptr<SignatureCodec> SignatureCodec::Parse(const std::string& text) {
  const absl::StatusOr<Signature> signature = Signature::Parse(text);
  if (!signature.ok()) throw py::value_error(std::string(signature.status().message()));
  return std::unique_ptr<SignatureCodec>(new SignatureCodec(*signature));
}

void SignatureCodec::EncodeArguments(const std::string& function,
                                     absl::Span<PyObject* const> arguments, Pieces* to) const {
  if (arguments.size() != parameters_.size()) {
    throw py::type_error(absl::StrCat(function, text_, " takes ", parameters_.size(),
                                      " arguments, but ", arguments.size(), " were given"));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto where = [&](const char* what) {
      return absl::StrCat("argument ", i + 1, " of ", function, text_, ": ", what);
    };
    try {
      parameters_[i].Encode(arguments[i], to);
    } catch (const py::type_error& error) {
      throw py::type_error(where(error.what()));
    } catch (const py::value_error& error) {
      throw py::value_error(where(error.what()));
    }
  }
}

py::tuple SignatureCodec::DecodeArguments(const invoker_call& call, py::handle owner) const {
  FoundData found(&call);
  ValueReader reader(call.input, call.input_size, &FoundData::FindAs, &found);
  py::tuple arguments(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    try {
      arguments[i] = parameters_[i].Decode({&reader, owner, /*writable=*/false, &found});
    } catch (const py::value_error& error) {
      throw py::value_error(absl::StrCat("argument ", i + 1, " of ", text_, ": ", error.what()));
    }
  }
  if (reader.left() != 0) {
    throw py::value_error(absl::StrCat("the request has ", reader.left(),
                                       " bytes more than the arguments of ", text_));
  }
  return arguments;
}

void SignatureCodec::EncodeResult(py::handle result, Pieces* to) const {
  try {
    result_.Encode(result, to);
  } catch (const py::type_error& error) {
    throw py::type_error(absl::StrCat("the function's result: ", error.what()));
  }
}

py::object SignatureCodec::DecodeResult(absl::Span<const std::byte> bytes, py::handle owner) const {
  ValueReader reader(bytes.data(), bytes.size());
  py::object result = result_.Decode({&reader, owner, /*writable=*/true, nullptr});
  if (reader.left() == 0) return result;
  throw py::value_error(absl::StrCat("the answer has ", reader.left(), " bytes more than a ",
                                     result_.type().ToString()));
}

}  // namespace invoker::python
