// The extension module invoker._native._invoker. Its Python side, and its documentation for users,
// is the package invoker.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "src/invoke/wire/version.h"
#include "src/python/native/bell.h"
#include "src/python/native/calls/bound_function.h"
#include "src/python/native/calls/credentials.h"
#include "src/python/native/calls/native_client.h"
#include "src/python/native/calls/native_lease.h"
#include "src/python/native/event.h"
#include "src/python/native/gil.h"
#include "src/python/native/memory.h"
#include "src/python/native/server/executor_program.h"
#include "src/python/native/server/fork_mark.h"
#include "src/python/native/server/native_server.h"
#include "src/python/native/server/python_function.h"
#include "src/python/native/signals.h"
#include "src/transport/base/signal_guard.h"

namespace py = pybind11;
using invoker::CallTicket;
using invoker::RemoteFunction;
using invoker::python::Bell;
using invoker::python::CredentialsOf;
using invoker::python::Event;
using invoker::python::NativeClient;
using invoker::python::NativeLease;
using invoker::python::NativeServer;
using invoker::python::WithoutGil;

PYBIND11_MODULE(_invoker, module) {
  module.doc() = "The native half of the package invoker. Use the package.";
  module.attr("__version__") = invoker::kVersion;
  if (!invoker::python::PrepareMemoryType()) throw py::error_already_set();
  if (!invoker::python::PreparePythonFunctions()) throw py::error_already_set();
  invoker::python::PrepareForkMarks();
  invoker::transport::KeepSignalHandlers();
  invoker::python::PrepareSignals();

  py::class_<RemoteFunction>(module, "RemoteFunction")
      .def_property_readonly("name", &RemoteFunction::name);

  // Opaque; of the client that returned it.
  py::class_<CallTicket>(module, "CallTicket");

  py::class_<Bell, std::shared_ptr<Bell>>(module, "Bell")
      .def(py::init<>())
      .def("ring", &Bell::Ring)
      .def(
          "wait",
          [](Bell& bell, std::optional<double> timeout) {
            const absl::Duration limit =
                timeout.has_value() ? absl::Seconds(*timeout) : absl::InfiniteDuration();
            WithoutGil([&] {
              bell.Wait(limit);
              return true;
            });
          },
          py::arg("timeout"))
      .def_property_readonly("rings", &Bell::rings);

  py::class_<Event>(module, "Event")
      .def(py::init<>())
      .def("set", &Event::Set)
      .def("is_set", &Event::is_set)
      .def("wait", &Event::Wait, py::arg("timeout") = py::none());

  py::class_<NativeClient>(module, "NativeClient")
      .def("function", &NativeClient::Function, py::arg("name"))
      .def("function_names", &NativeClient::FunctionNames)
      .def("start", &NativeClient::Start, py::arg("token"), py::arg("function"), py::arg("data"),
           py::arg("timeout"), py::arg("response_capacity"), py::arg("may_block"))
      .def("call_frame", &NativeClient::CallFrame, py::arg("function"), py::arg("parts"),
           py::arg("timeout"), py::arg("response_capacity"))
      .def("start_frame", &NativeClient::StartFrame, py::arg("token"), py::arg("function"),
           py::arg("parts"), py::arg("timeout"), py::arg("response_capacity"), py::arg("may_block"))
      .def("cancel", &NativeClient::Cancel, py::arg("ticket"))
      .def_property_readonly("frames_in_place", &NativeClient::frames_in_place)
      .def("next_results", &NativeClient::NextResults)
      .def("wake", &NativeClient::Wake)
      .def("ping", &NativeClient::Ping, py::arg("size"), py::arg("timeout"))
      .def("watch", &NativeClient::Watch, py::arg("bell"))
      .def_property_readonly("ended", &NativeClient::ended)
      .def("close", &NativeClient::Close)
      .def_property_readonly("closed", &NativeClient::closed)
      .def_property_readonly("forked", &NativeClient::forked)
      .def_property_readonly("provider", &NativeClient::provider)
      .def_property_readonly("fabric_choice", &NativeClient::fabric_choice)
      .def_property_readonly("notification", &NativeClient::notification)
      .def_property_readonly("data_auth", &NativeClient::data_auth)
      .def("dropped_responses", &NativeClient::DroppedResponses)
      .def_property_readonly("downgrade_reason", &NativeClient::downgrade_reason)
      .def_property_readonly("max_payload", &NativeClient::max_payload);

  PyObject* bound_function = invoker::python::MakeBoundFunctionType();
  if (bound_function == nullptr) throw py::error_already_set();
  module.attr("BoundFunction") = py::reinterpret_steal<py::object>(bound_function);

  module.def(
      "connect",
      [](const std::string& server, const std::string& provider, const std::string& fabric_address,
         const std::string& notify, const std::string& data_auth, uint64_t window,
         double connect_timeout, double hot_timeout, const py::tuple& credentials,
         double peer_timeout, std::optional<uint64_t> pieces_up_to) {
        return NativeClient::Connect(
            server, {provider, fabric_address, notify, data_auth, window, connect_timeout,
                     hot_timeout, CredentialsOf(credentials), peer_timeout, pieces_up_to});
      },
      py::arg("server"), py::arg("provider"), py::arg("fabric_address"), py::arg("notify"),
      py::arg("data_auth"), py::arg("window"), py::arg("connect_timeout"), py::arg("hot_timeout"),
      py::arg("credentials"), py::arg("peer_timeout"), py::arg("pieces_up_to"));

  py::class_<NativeLease>(module, "NativeLease")
      .def("executors", &NativeLease::Executors)
      .def("function_names", &NativeLease::FunctionNames)
      .def("load", &NativeLease::Load, py::arg("code"), py::arg("python"), py::arg("name"))
      .def("ended", &NativeLease::Ended)
      .def("terms", &NativeLease::Terms)
      .def("usage", &NativeLease::Usage)
      .def("release", &NativeLease::Release)
      .def_property_readonly("closed", &NativeLease::closed)
      .def_property_readonly("forked", &NativeLease::forked);

  module.def(
      "lease",
      [](const std::string& server, const std::string& provider, const std::string& fabric_address,
         const std::string& notify, const std::string& data_auth, uint64_t window,
         double connect_timeout, double hot_timeout, const py::tuple& credentials,
         double peer_timeout, std::optional<uint64_t> pieces_up_to, const py::dict& terms) {
        return NativeLease::Acquire(
            server,
            {provider, fabric_address, notify, data_auth, window, connect_timeout, hot_timeout,
             CredentialsOf(credentials), peer_timeout, pieces_up_to},
            terms);
      },
      py::arg("server"), py::arg("provider"), py::arg("fabric_address"), py::arg("notify"),
      py::arg("data_auth"), py::arg("window"), py::arg("connect_timeout"), py::arg("hot_timeout"),
      py::arg("credentials"), py::arg("peer_timeout"), py::arg("pieces_up_to"), py::arg("terms"));
  module.def("cancelled", &invoker::python::PythonFunction::IsCancelled);
  module.def("run_executor", &invoker::python::RunExecutorProgram, py::arg("arguments"));
  module.def(
      "capacity",
      [](const std::string& server, double timeout, const py::tuple& credentials) {
        return invoker::python::WorkerCapacity(server, timeout, CredentialsOf(credentials));
      },
      py::arg("server"), py::arg("timeout"), py::arg("credentials"));

  py::class_<NativeServer>(module, "NativeServer")
      .def("close", &NativeServer::Close, py::arg("drain_timeout"))
      .def("let_go", &NativeServer::LetGo)
      .def("calls_run", &NativeServer::CallsRun)
      .def_property_readonly("closed", &NativeServer::closed)
      .def_property_readonly("forked", &NativeServer::forked)
      .def_property_readonly("address", &NativeServer::address)
      .def_property_readonly("providers", &NativeServer::providers);

  module.def(
      "serve",
      [](const std::vector<std::tuple<std::string, py::object, bool, std::string>>& functions,
         const std::string& listen, const std::string& provider, const std::string& fabric_address,
         const std::string& notify, const std::string& data_auth, uint64_t window,
         uint32_t executors, double hot_timeout, double peer_timeout, const py::tuple& security) {
        std::vector<NativeServer::Function> list;
        for (const auto& [name, callable, framed, doc] : functions) {
          list.push_back({name, callable, framed, doc});
        }
        const auto text = [&security](size_t field) { return security[field].cast<std::string>(); };
        NativeServer::Options options;
        options.listen = listen;
        options.provider = provider;
        options.fabric_address = fabric_address;
        options.notify = notify;
        options.data_auth = data_auth;
        options.window_bytes = window;
        options.executors = executors;
        options.hot_timeout_s = hot_timeout;
        options.peer_timeout_s = peer_timeout;
        options.tls = {text(0), text(1), text(2)};
        options.token_file = text(3);
        options.policy_file = text(4);
        options.allow_plaintext = security[5].cast<bool>();
        return NativeServer::Start(std::move(list), options);
      },
      py::arg("functions"), py::arg("listen"), py::arg("provider"), py::arg("fabric_address"),
      py::arg("notify"), py::arg("data_auth"), py::arg("window"), py::arg("executors"),
      py::arg("hot_timeout"), py::arg("peer_timeout"), py::arg("security"));
}
