// The extension module invoker._invoker. Its Python side, and its documentation for users, is the
// package invoker.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "src/invoke/version.h"
#include "src/python/bound_function.h"
#include "src/python/memory.h"
#include "src/python/native_client.h"

namespace py = pybind11;
using invoker::RemoteFunction;
using invoker::python::NativeClient;

PYBIND11_MODULE(_invoker, module) {
  module.doc() = "The native half of the package invoker. Use the package.";
  module.attr("__version__") = invoker::kVersion;
  if (!invoker::python::PrepareMemoryType()) throw py::error_already_set();
  invoker::python::PrepareNativeClients(
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>());

  py::class_<RemoteFunction>(module, "RemoteFunction")
      .def_property_readonly("name", &RemoteFunction::name);

  py::class_<NativeClient>(module, "NativeClient")
      .def("function", &NativeClient::Function, py::arg("name"))
      .def("function_names", &NativeClient::FunctionNames)
      .def("start", &NativeClient::Start, py::arg("token"), py::arg("function"), py::arg("data"),
           py::arg("timeout"), py::arg("response_capacity"), py::arg("may_block"))
      .def("next_results", &NativeClient::NextResults)
      .def("wake", &NativeClient::Wake)
      .def("ping", &NativeClient::Ping, py::arg("size"), py::arg("timeout"))
      .def("close", &NativeClient::Close)
      .def_property_readonly("closed", &NativeClient::closed)
      .def_property_readonly("forked", &NativeClient::forked)
      .def_property_readonly("provider", &NativeClient::provider)
      .def_property_readonly("fabric_choice", &NativeClient::fabric_choice)
      .def_property_readonly("notification", &NativeClient::notification)
      .def_property_readonly("downgrade_reason", &NativeClient::downgrade_reason)
      .def_property_readonly("max_payload", &NativeClient::max_payload);

  PyObject* bound_function = invoker::python::MakeBoundFunctionType();
  if (bound_function == nullptr) throw py::error_already_set();
  module.attr("BoundFunction") = py::reinterpret_steal<py::object>(bound_function);

  module.def(
      "connect",
      [](const std::string& server, const std::string& provider, const std::string& fabric_address,
         const std::string& notify, uint64_t window, double connect_timeout, double hot_timeout) {
        return NativeClient::Connect(
            server, {provider, fabric_address, notify, window, connect_timeout, hot_timeout});
      },
      py::arg("server"), py::arg("provider"), py::arg("fabric_address"), py::arg("notify"),
      py::arg("window"), py::arg("connect_timeout"), py::arg("hot_timeout"));
}
