// The extension module invoker._native._invoker. Its Python side, and its documentation for users,
// is the package invoker.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "invoker/client.h"
#include "invoker/metrics.h"
#include "invoker/version.h"
#include "src/python/native/calls/bound_function.h"
#include "src/python/native/calls/bound_typed.h"
#include "src/python/native/calls/connect_options.h"
#include "src/python/native/calls/ended_queue.h"
#include "src/python/native/calls/native_caller.h"
#include "src/python/native/calls/native_client.h"
#include "src/python/native/calls/native_group.h"
#include "src/python/native/calls/native_lease.h"
#include "src/python/native/calls/started_call.h"
#include "src/python/native/errors.h"
#include "src/python/native/event.h"
#include "src/python/native/frames/frame.h"
#include "src/python/native/gil.h"
#include "src/python/native/log_queue.h"
#include "src/python/native/memory.h"
#include "src/python/native/native_metrics.h"
#include "src/python/native/server/async_call.h"
#include "src/python/native/server/executor_program.h"
#include "src/python/native/server/fork_mark.h"
#include "src/python/native/server/native_server.h"
#include "src/python/native/server/python_function.h"
#include "src/python/native/signals.h"
#include "src/python/native/typed/native_reference.h"
#include "src/python/native/typed/signature_codec.h"
#include "src/transport/base/signal_guard.h"

namespace py = pybind11;
using invoker::python::AsyncCall;
using invoker::python::ClusterCredentialsFrom;
using invoker::python::EndedQueue;
using invoker::python::Event;
using invoker::python::Frame;
using invoker::python::FrameKind;
using invoker::python::FunctionHandle;
using invoker::python::NativeCaller;
using invoker::python::NativeClient;
using invoker::python::NativeGroup;
using invoker::python::NativeLease;
using invoker::python::NativeMetrics;
using invoker::python::NativeReference;
using invoker::python::NativeServer;
using invoker::python::SignatureCodec;
using invoker::python::Way;
using invoker::python::WayFrom;

PYBIND11_MODULE(_invoker, module) {
  module.doc() = "The native half of the package invoker. Use the package.";
  module.attr("__version__") = invoker::Version();
  if (!invoker::python::PrepareMemoryType()) throw py::error_already_set();
  if (!invoker::python::PreparePythonFunctions()) throw py::error_already_set();
  if (!invoker::python::PrepareFrames()) throw py::error_already_set();
  invoker::python::PrepareForkMarks();
  invoker::transport::KeepSignalHandlers();
  invoker::python::PrepareSignals();

  module.def("client_metrics", [] { return invoker::python::WithoutGil(&invoker::ClientMetrics); });
  py::class_<NativeMetrics>(module, "NativeMetrics")
      .def(py::init(&NativeMetrics::Start), py::arg("listen"), py::arg("tls_cert"),
           py::arg("tls_key"), py::arg("tls_client_ca"), py::arg("token_file"),
           py::arg("allow_plaintext"))
      .def("close", &NativeMetrics::Close)
      .def_property_readonly("address", &NativeMetrics::address);

  module.def("start_logs", &invoker::python::StartLogQueue);
  module.def("stop_logs", &invoker::python::StopLogQueue);
  module.def("take_logs", &invoker::python::TakeLogs);

  // The caller's that returned it.
  py::class_<FunctionHandle>(module, "FunctionHandle")
      .def_readonly("name", &FunctionHandle::name)
      .def_readonly("signature", &FunctionHandle::signature);

  module.def(
      "check_signature",
      [](const std::string& function, const std::string& workers, const std::string& callers) {
        const absl::Status same = invoker::CheckSignature(function, workers, callers);
        if (!same.ok()) invoker::python::RaiseNotSent(same);
      },
      py::arg("function"), py::arg("workers"), py::arg("callers"));

  PyObject* started_call = invoker::python::MakeStartedCallType();
  if (started_call == nullptr) throw py::error_already_set();
  module.attr("StartedCall") = py::reinterpret_steal<py::object>(started_call);
  py::class_<EndedQueue, std::shared_ptr<EndedQueue>>(module, "EndedQueue")
      .def(py::init<>())
      .def("add_descriptor",
           [](EndedQueue& queue) {
             invoker::python::RaiseUnlessOk(queue.AddDescriptor());
             return queue.descriptor();
           })
      .def("push", &EndedQueue::Push, py::arg("token"))
      .def("wake", &EndedQueue::Wake)
      .def("take", &EndedQueue::Take)
      .def("set_polled", &EndedQueue::SetPolled, py::arg("polled"))
      .def(
          "poll",
          [](const std::shared_ptr<EndedQueue>& queue, py::handle call, double limit) {
            invoker::python::AwaitQueue(*queue, call.ptr(), limit);
            return queue->Take();
          },
          py::arg("call"), py::arg("limit"))
      .def(
          "wait",
          [](const std::shared_ptr<EndedQueue>& queue, py::handle call) {
            invoker::python::AwaitQueue(*queue, call.ptr(), std::nullopt);
            return queue->Take();
          },
          py::arg("call"));

  module.attr("NoFrame") = invoker::python::NoFrameType();
  py::class_<Frame>(module, "Frame")
      .def(py::init([](uint8_t kind, py::handle value) {
             return std::make_unique<Frame>(static_cast<FrameKind>(kind), value);
           }),
           py::arg("kind"), py::arg("value"))
      .def_property_readonly("references", &Frame::references)
      .def("__bytes__", [](const Frame& frame) {
        auto bytes = py::reinterpret_steal<py::bytes>(
            PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(frame.size())));
        if (!bytes) throw py::error_already_set();
        frame.WriteTo(PyBytes_AS_STRING(bytes.ptr()));
        return bytes;
      });
  module.def(
      "decode_frame",
      [](py::handle view) {
        // Raises if it has been released.
        const auto held = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(view.ptr()));
        if (!held) throw py::error_already_set();
        const invoker::python::DecodedFrame frame = invoker::python::DecodeFrame(held);
        return py::make_tuple(static_cast<uint8_t>(frame.kind), frame.value);
      },
      py::arg("view"));

  py::class_<SignatureCodec>(module, "Signature")
      .def(py::init(&SignatureCodec::Parse), py::arg("text"))
      .def_property_readonly("text", &SignatureCodec::text)
      .def(
          "decode_result",
          [](const SignatureCodec& signature, const py::object& view) {
            const Py_buffer* buffer = PyMemoryView_GET_BUFFER(view.ptr());
            return signature.DecodeResult(
                {static_cast<const std::byte*>(buffer->buf), static_cast<size_t>(buffer->len)},
                view);
          },
          py::arg("view"));

  py::class_<NativeReference>(module, "NativeReference")
      .def("free", &NativeReference::Free)
      .def_property_readonly("id", &NativeReference::id)
      .def_property_readonly("type", &NativeReference::type)
      .def_property_readonly("bytes", &NativeReference::bytes)
      .def_property_readonly("freed", &NativeReference::freed);

  py::class_<Event>(module, "Event")
      .def(py::init<>())
      .def("set", &Event::Set)
      .def("is_set", &Event::is_set)
      .def("wait", &Event::Wait, py::arg("timeout") = py::none());

  py::class_<NativeCaller>(module, "NativeCaller")
      .def("function", &NativeCaller::Function, py::arg("name"))
      .def("function_names", &NativeCaller::FunctionNames)
      .def(
          "call_frame",
          [](NativeCaller& caller, const FunctionHandle& function, py::handle value,
             std::optional<double> timeout, std::optional<int64_t> response_capacity,
             uint64_t room) {
            return caller.CallFrame(function, Frame(FrameKind::kCall, value),
                                    {timeout, response_capacity, room});
          },
          py::arg("function"), py::arg("value"), py::arg("timeout"), py::arg("response_capacity"),
          py::arg("room"))
      .def(
          "start_frame",
          [](const py::object& self, const FunctionHandle& function, const Frame& frame,
             std::optional<double> timeout, std::optional<int64_t> response_capacity, uint64_t room,
             bool may_block) {
            return self.cast<NativeCaller&>().StartFrame(
                self.ptr(), function, frame, {timeout, response_capacity, room, 0, may_block});
          },
          py::arg("function"), py::arg("frame"), py::arg("timeout"), py::arg("response_capacity"),
          py::arg("room"), py::arg("may_block"))
      .def("close", &NativeCaller::Close)
      .def_property_readonly("closed", &NativeCaller::closed)
      .def_property_readonly("forked", &NativeCaller::forked)
      .def_property_readonly("executors", &NativeCaller::executors)
      .def_property_readonly("max_payload", &NativeCaller::max_payload);

  py::class_<NativeClient, NativeCaller>(module, "NativeClient")
      .def(
          "client_of", [](const py::object& self, uint64_t) { return self; }, py::arg("session"))
      .def("ping", &NativeClient::Ping, py::arg("size"), py::arg("timeout"))
      .def_property_readonly("server", &NativeClient::server)
      .def_property_readonly("session", &NativeClient::session)
      .def_property_readonly("provider", &NativeClient::provider)
      .def_property_readonly("fabric_choice", &NativeClient::fabric_choice)
      .def_property_readonly("notification", &NativeClient::notification)
      .def_property_readonly("data_auth", &NativeClient::data_auth)
      .def("dropped_responses", &NativeClient::DroppedResponses)
      .def_property_readonly("downgrade_reason", &NativeClient::downgrade_reason);

  py::class_<NativeGroup, NativeCaller>(module, "NativeGroup")
      .def("client_of", &NativeGroup::ClientOf, py::arg("session"))
      .def("servers", &NativeGroup::Servers)
      .def("leases_python", &NativeGroup::LeasesPython)
      .def("clients", &NativeGroup::Clients);

  PyObject* bound_function = invoker::python::MakeBoundFunctionType();
  if (bound_function == nullptr) throw py::error_already_set();
  module.attr("BoundFunction") = py::reinterpret_steal<py::object>(bound_function);

  PyObject* bound_typed = invoker::python::MakeBoundTypedType();
  if (bound_typed == nullptr) throw py::error_already_set();
  module.attr("BoundTyped") = py::reinterpret_steal<py::object>(bound_typed);

  module.def(
      "connect", [](const py::tuple& way) { return NativeClient::Connect(WayFrom(way)); },
      py::arg("way"));
  module.def(
      "connect_group",
      [](const py::tuple& way, bool reconnect) {
        return NativeGroup::Connect(WayFrom(way), reconnect);
      },
      py::arg("way"), py::arg("reconnect"));

  py::class_<NativeLease>(module, "NativeLease")
      .def("group", &NativeLease::Group)
      .def("servers", &NativeLease::Servers)
      .def("function_names", &NativeLease::FunctionNames)
      .def("load", &NativeLease::Load, py::arg("code"), py::arg("python"), py::arg("name"))
      .def("put", &NativeLease::Put, py::arg("type"), py::arg("array"), py::arg("timeout"))
      .def("ended", &NativeLease::Ended)
      .def("terms", &NativeLease::Terms)
      .def("usage", &NativeLease::Usage)
      .def("release", &NativeLease::Release)
      .def_property_readonly("closed", &NativeLease::closed)
      .def_property_readonly("forked", &NativeLease::forked);

  module.def(
      "lease",
      [](const py::tuple& way, const py::dict& terms) {
        return NativeLease::Acquire(WayFrom(way), terms);
      },
      py::arg("way"), py::arg("terms"));
  py::class_<AsyncCall>(module, "AsyncCall")
      .def("finish", &AsyncCall::Finish, py::arg("result"))
      .def("fail", &AsyncCall::Fail, py::arg("exception"))
      .def("cancelled", &AsyncCall::IsCancelled)
      .def("facts", &AsyncCall::Facts)
      .def("find_array", &AsyncCall::FindArray, py::arg("reference"));
  module.def("cancelled", &invoker::python::PythonFunction::IsCancelled);
  module.def("call_facts", &invoker::python::PythonFunction::Facts);
  module.def("find_array", &invoker::python::PythonFunction::FindArray, py::arg("reference"));
  module.def("run_executor", &invoker::python::RunExecutorProgram, py::arg("arguments"));
  module.def(
      "capacity",
      [](const py::tuple& way) { return invoker::python::WorkerCapacity(WayFrom(way)); },
      py::arg("way"));

  py::class_<NativeServer>(module, "NativeServer")
      .def("close", &NativeServer::Close, py::arg("drain_timeout"))
      .def("let_go", &NativeServer::LetGo)
      .def("calls_run", &NativeServer::CallsRun)
      .def_property_readonly("closed", &NativeServer::closed)
      .def_property_readonly("forked", &NativeServer::forked)
      .def_property_readonly("address", &NativeServer::address)
      .def_property_readonly("metrics_address", &NativeServer::metrics_address)
      .def_property_readonly("providers", &NativeServer::providers);

  module.def(
      "serve",
      [](const std::vector<std::tuple<std::string, py::object, bool, std::string, std::string,
                                      uint32_t, bool>>& functions,
         const std::string& listen, const std::string& provider, const std::string& fabric_address,
         const std::string& notify, const std::string& data_auth, uint64_t window,
         uint32_t executors, double hot_timeout, double peer_timeout, const std::string& metrics,
         const py::tuple& security, const py::tuple& cluster) {
        std::vector<NativeServer::Function> list;
        for (const auto& [name, callable, framed, signature, doc, concurrency, coroutine] :
             functions) {
          list.push_back({name, callable, framed, signature, doc, concurrency, coroutine});
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
        options.metrics = metrics;
        options.tls_cert = text(0);
        options.tls_key = text(1);
        options.tls_client_ca = text(2);
        options.token_file = text(3);
        options.policy_file = text(4);
        options.allow_plaintext = security[5].cast<bool>();
        options.cluster = cluster[0].cast<std::string>();
        options.cluster_credentials = ClusterCredentialsFrom(cluster[1].cast<py::tuple>());
        options.advertise = cluster[2].cast<std::string>();
        options.labels = cluster[3].cast<std::map<std::string, std::string>>();
        return NativeServer::Start(std::move(list), options);
      },
      py::arg("functions"), py::arg("listen"), py::arg("provider"), py::arg("fabric_address"),
      py::arg("notify"), py::arg("data_auth"), py::arg("window"), py::arg("executors"),
      py::arg("hot_timeout"), py::arg("peer_timeout"), py::arg("metrics"), py::arg("security"),
      py::arg("cluster"));
}
