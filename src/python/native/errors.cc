#include "src/python/native/errors.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "invoker/call_fate.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// A message may hold what a remote function wrote, which need not be UTF-8.
py::str Text(absl::string_view text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

}  // namespace

py::object MakeException(const absl::Status& status) {
  const std::optional<int32_t> code = GetFunctionCode(status);
  return py::module_::import("invoker.errors")
      .attr("_from_status")(absl::StatusCodeToString(status.code()), Text(status.message()),
                            std::string(CallFateName(GetCallFate(status))),
                            code.has_value() ? py::object(py::int_(*code)) : py::none());
}

void Raise(const absl::Status& status) {
  const py::object exception = MakeException(status);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

void RaiseNotSent(absl::Status status) { Raise(WithFate(std::move(status), CallFate::kNotSent)); }

void RaiseUnlessOk(const absl::Status& status) {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (!status.ok()) Raise(status);
}

}  // namespace invoker::python
