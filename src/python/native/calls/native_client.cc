#include "src/python/native/calls/native_client.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/connect/connection.h"
#include "src/python/native/buffer.h"
#include "src/python/native/calls/frame_parts.h"
#include "src/python/native/errors.h"
#include "src/python/native/gil.h"
#include "src/python/native/server/native_server.h"
#include "src/python/native/signals.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// `status` is an error. If a signal handler ended the wait, what it raised is raised.
// For what has been waited for with CallOptions::interrupted: a signal handler may have raised
// while the result came.
void RaiseUnlessOk(const absl::Status& status) {
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (!status.ok()) Raise(status);
}

absl::Duration Seconds(const char* name, double seconds) {
  if (std::isnan(seconds)) throw py::value_error(absl::StrCat(name, " is not a number"));
  return absl::Seconds(seconds);
}

// Arguments of Python's; nullptr: not given.
std::optional<double> NumberIn(PyObject* object) {
  if (object == nullptr) return std::nullopt;
  const double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number;
}

// Larger ones than fit count as the largest.
std::optional<int64_t> IntegerIn(PyObject* object) {
  if (object == nullptr) return std::nullopt;
  const Py_ssize_t number = PyNumber_AsSsize_t(object, nullptr);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number;
}

absl::Status OutTooSmall(size_t response, size_t out) {
  return WithFate(absl::ResourceExhaustedError(absl::StrCat("the response has ", response,
                                                            " bytes, and out= has room for ", out)),
                  CallFate::kExecuted);
}

// The worker's answer that a response did not fit, with what the caller gave.
absl::Status WithOutSize(const absl::Status& status, size_t out) {
  if (!absl::IsResourceExhausted(status) || GetCallFate(status) != CallFate::kExecuted) {
    return status;
  }
  return WithFate(
      absl::ResourceExhaustedError(absl::StrCat(status.message(), "; out= has ", out, " bytes")),
      CallFate::kExecuted);
}

// The frame in memory of its own.
absl::StatusOr<Memory> Assemble(const FrameParts& frame) {
  absl::StatusOr<Memory> memory = Memory::OfSize(frame.size());
  if (memory.ok()) frame.CopyTo(memory->bytes());
  return memory;
}

// The same for when the request window has no room now: the call then waits for some. `why_not` is
// why it has none.
absl::StatusOr<Memory> Assemble(const FrameParts& frame, const absl::Status& why_not) {
  if (!absl::IsResourceExhausted(why_not)) return why_not;
  return Assemble(frame);
}

// A call whose request the session's windows do not take: the executor reads it from where it is.
absl::StatusOr<Memory> CallLarge(Client* client, const RemoteFunction& function, Bytes request,
                                 size_t response_capacity, const CallOptions& options) {
  absl::StatusOr<Memory> answer = Memory::OfSize(response_capacity);
  if (!answer.ok()) return WithFate(answer.status(), CallFate::kNotSent);
  CallOptions with_output = options;
  with_output.output = CallOutput(answer->bytes());
  const absl::StatusOr<Response> response = client->Invoke(function, request, with_output);
  if (!response.ok()) return response.status();
  answer->Truncate(response->size());
  return answer;
}

}  // namespace

NativeClient::NativeClient(std::shared_ptr<Client> client, bool owned)
    : client_(std::move(client)), owned_(owned) {}

NativeClient::~NativeClient() { Close(); }

ClientOptions NativeClient::MakeClientOptions(const Options& options) {
  ClientOptions client_options;
  if (!transport::ParseNotification(options.notify, &client_options.notification)) {
    Raise(absl::InvalidArgumentError(
        absl::StrCat("notify=\"", options.notify,
                     "\" is not one of \"auto\", \"write_imm\", \"send_after_write\"")));
  }
  const std::optional<DataAuth> data_auth = ParseDataAuth(options.data_auth);
  if (!data_auth.has_value()) {
    Raise(absl::InvalidArgumentError(absl::StrCat(
        "data_auth=\"", options.data_auth, "\" is not one of \"off\", \"header\", \"full\"")));
  }
  client_options.data_auth = *data_auth;
  client_options.provider = options.provider;
  client_options.fabric_address = options.fabric_address;
  client_options.window_bytes = options.window_bytes;
  client_options.connect_timeout = Seconds("connect_timeout", options.connect_timeout_s);
  client_options.hot_timeout = Seconds("hot_timeout", options.hot_timeout_s);
  client_options.credentials = options.credentials;
  client_options.peer_timeout = Seconds("peer_timeout", options.peer_timeout_s);
  client_options.pieces_up_to = options.pieces_up_to;
  return client_options;
}

std::unique_ptr<NativeClient> NativeClient::Of(std::shared_ptr<Client> client) {
  return std::unique_ptr<NativeClient>(new NativeClient(std::move(client), /*owned=*/false));
}

std::unique_ptr<NativeClient> NativeClient::Connect(const std::string& server,
                                                    const Options& options) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  ClientOptions client_options = MakeClientOptions(options);
  client_options.worker_in_this_process = NativeServer::MayServe(server);
  absl::StatusOr<std::unique_ptr<Client>> client =
      WithoutGil([&] { return Client::Connect(server, client_options); });
  if (!client.ok()) Raise(client.status());
  return std::unique_ptr<NativeClient>(new NativeClient(*std::move(client), /*owned=*/true));
}

std::shared_ptr<Client> NativeClient::Get() const {
  if (forked()) {
    Raise(WithFate(absl::FailedPreconditionError(absl::StrCat(
                       "this client was opened by process ", mark_.process(),
                       ", and a forked process cannot use it; start processes that are to have "
                       "clients of their own by multiprocessing's \"spawn\" method")),
                   CallFate::kNotSent));
  }
  if (client_ == nullptr) {
    Raise(
        WithFate(absl::FailedPreconditionError("the client has been closed"), CallFate::kNotSent));
  }
  return client_;
}

RemoteFunction NativeClient::Function(const std::string& name) const {
  absl::StatusOr<RemoteFunction> function = Get()->Function(name);
  if (!function.ok()) Raise(WithFate(function.status(), CallFate::kNotSent));
  return *std::move(function);
}

std::vector<std::string> NativeClient::FunctionNames() const { return Get()->FunctionNames(); }

std::string NativeClient::data_auth() const {
  return std::string(DataAuthName(Get()->data_auth()));
}

py::dict NativeClient::DroppedResponses() const {
  py::dict dropped;
  ForEachDrop(Get()->dropped_responses(), [&dropped](absl::string_view reason, uint64_t count) {
    dropped[py::str(std::string(reason))] = count;
  });
  return dropped;
}

std::string NativeClient::notification() const {
  return std::string(transport::NotificationName(Get()->notification()));
}

CallOptions NativeClient::MakeOptions(const Client& client, std::optional<double> timeout_s,
                                      std::optional<int64_t> response_capacity) const {
  CallOptions options;
  if (timeout_s.has_value()) options.timeout = Seconds("timeout", *timeout_s);
  if (response_capacity.has_value()) {
    if (*response_capacity < 1 ||
        static_cast<uint64_t>(*response_capacity) > client.max_payload()) {
      Raise(WithFate(absl::InvalidArgumentError(absl::StrCat(
                         "response_capacity=", *response_capacity, " is not from 1 to ",
                         client.max_payload(), " bytes, the largest payload of this session")),
                     CallFate::kNotSent));
    }
    options.response_capacity = static_cast<uint32_t>(*response_capacity);
  }
  // Responses are held only until they are copied, by threads that need nothing else for that.
  options.when_full = WhenFull::kWaitForResponses;
  if (OnMainThread()) options.interrupted = SignalRaised;
  return options;
}

py::object NativeClient::Call(const RemoteFunction& function, const CallArguments& arguments) {
  const std::shared_ptr<Client> client = Get();
  CallOptions options =
      MakeOptions(*client, NumberIn(arguments.timeout), IntegerIn(arguments.response_capacity));
  const InputBuffer input(arguments.data);
  if (arguments.out == nullptr) {
    absl::StatusOr<Memory> response = WithoutGil([&]() -> absl::StatusOr<Memory> {
      if (input.bytes().size() > client->max_payload()) {
        const size_t capacity =
            options.response_capacity > 0 ? options.response_capacity : input.bytes().size();
        return CallLarge(client.get(), function, input.bytes(), capacity, options);
      }
      absl::StatusOr<Response> response = client->Invoke(function, input.bytes(), options);
      if (!response.ok()) return response.status();
      return Memory::CopyOf(response->data());
    });
    RaiseUnlessOk(response.status());
    PyObject* view = (*std::move(response)).IntoView();
    if (view == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(view);
  }
  OutputBuffer output(arguments.out);
  const absl::Span<std::byte> room = output.bytes();
  const uint64_t usual = std::max<uint64_t>(input.bytes().size(), client->max_payload() / 64);
  if (options.response_capacity == 0 && room.size() > usual) {
    options.response_capacity =
        static_cast<uint32_t>(std::min<uint64_t>(room.size(), client->max_payload()));
  }
  const bool large = std::max(input.bytes().size(), room.size()) > client->max_payload();
  const absl::StatusOr<size_t> size = WithoutGil([&]() -> absl::StatusOr<size_t> {
    if (large) {
      CallOptions with_output = options;
      with_output.output = CallOutput(room);
      const absl::StatusOr<Response> response =
          client->Invoke(function, input.bytes(), with_output);
      if (!response.ok()) return WithOutSize(response.status(), room.size());
      return response->size();
    }
    absl::StatusOr<Response> response = client->Invoke(function, input.bytes(), options);
    if (!response.ok()) return WithOutSize(response.status(), room.size());
    if (response->size() > room.size()) return OutTooSmall(response->size(), room.size());
    if (response->size() > 0) std::memcpy(room.data(), response->data().data(), response->size());
    return response->size();
  });
  RaiseUnlessOk(size.status());
  return std::move(output).Beginning(*size);
}

template <typename Invoke>
py::object NativeClient::Begin(uint64_t token, CallOptions options, bool may_block,
                               Invoke&& invoke) {
  if (!may_block) options.when_full = WhenFull::kFail;
  CallDone done = [token, results = results_](absl::StatusOr<Response> response) {
    if (response.ok()) {
      results->Push({token, Memory::CopyOf(response->data())});
    } else {
      results->Push({token, response.status()});
    }
  };
  CallTicket ticket;
  const absl::Status refusal = WithoutGil([&] { return invoke(options, done, &ticket); });
  if (!may_block && absl::IsResourceExhausted(refusal)) return py::none();
  RaiseUnlessOk(refusal);
  return py::cast(ticket);
}

py::object NativeClient::Start(uint64_t token, const RemoteFunction& function, py::handle data,
                               std::optional<double> timeout_s,
                               std::optional<int64_t> response_capacity, bool may_block) {
  const std::shared_ptr<Client> client = Get();
  const CallOptions options = MakeOptions(*client, timeout_s, response_capacity);
  const InputBuffer input(data.ptr());
  return Begin(token, options, may_block,
               [&](const CallOptions& final_options, CallDone& done, CallTicket* ticket) {
                 return CallStarter::Start(*client, function, input.bytes(), final_options, done,
                                           ticket);
               });
}

bool NativeClient::Cancel(const CallTicket& ticket) {
  // A client that has been closed has ended its calls.
  if (client_ == nullptr || forked()) return false;
  const std::shared_ptr<Client> client = client_;
  return WithoutGil([&] { return CallStarter::Cancel(*client, ticket); });
}

py::object NativeClient::CallFrame(const RemoteFunction& function, py::handle parts,
                                   std::optional<double> timeout_s,
                                   std::optional<int64_t> response_capacity) {
  const std::shared_ptr<Client> client = Get();
  const CallOptions options = MakeOptions(*client, timeout_s, response_capacity);
  const FrameParts frame(parts);
  absl::StatusOr<Memory> response = WithoutGil([&]() -> absl::StatusOr<Memory> {
    if (frame.size() > client->max_payload()) {
      const absl::StatusOr<Memory> whole = Assemble(frame);
      if (!whole.ok()) return WithFate(whole.status(), CallFate::kNotSent);
      return CallLarge(client.get(), function, whole->bytes(), options.response_capacity, options);
    }
    absl::StatusOr<Buffer> buffer = client->AllocateBuffer(frame.size());
    if (buffer.ok()) {
      frames_in_place_.fetch_add(1, std::memory_order_relaxed);
      frame.CopyTo(buffer->data());
      absl::StatusOr<Response> done = client->Invoke(function, {*buffer, frame.size()}, options);
      if (!done.ok()) return done.status();
      return Memory::CopyOf(done->data());
    }
    absl::StatusOr<Memory> whole = Assemble(frame, buffer.status());
    if (!whole.ok()) return whole.status();
    absl::StatusOr<Response> done = client->Invoke(function, whole->bytes(), options);
    if (!done.ok()) return done.status();
    return Memory::CopyOf(done->data());
  });
  RaiseUnlessOk(response.status());
  PyObject* view = (*std::move(response)).IntoView();
  if (view == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(view);
}

py::object NativeClient::StartFrame(uint64_t token, const RemoteFunction& function,
                                    py::handle parts, std::optional<double> timeout_s,
                                    std::optional<int64_t> response_capacity, bool may_block) {
  const std::shared_ptr<Client> client = Get();
  const CallOptions options = MakeOptions(*client, timeout_s, response_capacity);
  const FrameParts frame(parts);
  return Begin(token, options, may_block,
               [&](const CallOptions& final_options, CallDone& done, CallTicket* ticket) {
                 absl::StatusOr<Buffer> buffer = client->AllocateBuffer(frame.size());
                 if (buffer.ok()) {
                   frames_in_place_.fetch_add(1, std::memory_order_relaxed);
                   frame.CopyTo(buffer->data());
                   // The call keeps the buffer's memory until it has ended.
                   return CallStarter::Start(*client, function, {*buffer, frame.size()},
                                             final_options, done, ticket);
                 }
                 if (final_options.when_full == WhenFull::kFail) return buffer.status();
                 absl::StatusOr<Memory> whole = Assemble(frame, buffer.status());
                 if (!whole.ok()) return whole.status();
                 return CallStarter::Start(*client, function, whole->bytes(), final_options, done,
                                           ticket);
               });
}

py::list NativeClient::NextResults() {
  const std::shared_ptr<ResultQueue> queue = results_;
  std::vector<Result> results = WithoutGil([&] { return queue->Take(); });
  py::list list;
  for (Result& result : results) {
    py::object value;
    if (result.response.ok()) {
      value = py::reinterpret_steal<py::object>((*std::move(result.response)).IntoView());
      if (!value) throw py::error_already_set();
    } else {
      value = MakeException(result.response.status());
    }
    list.append(py::make_tuple(result.token, std::move(value)));
  }
  return list;
}

double NativeClient::Ping(int64_t size, std::optional<double> timeout_s) {
  const std::shared_ptr<Client> client = Get();
  const CallOptions options = MakeOptions(*client, timeout_s, std::nullopt);
  if (size < 0 || static_cast<uint64_t>(size) > client->max_payload()) {
    Raise(WithFate(absl::InvalidArgumentError(
                       absl::StrCat("size=", size, " is not from 0 to ", client->max_payload(),
                                    " bytes, the largest payload of this session")),
                   CallFate::kNotSent));
  }
  absl::Duration elapsed;
  const absl::Status status = WithoutGil([&] {
    std::vector<std::byte> payload(static_cast<size_t>(size));
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 131);
    const int64_t begin_ns = transport::MonotonicNs();
    absl::Status pinged = client->Ping(payload, options);
    elapsed = absl::Nanoseconds(transport::MonotonicNs() - begin_ns);
    return pinged;
  });
  RaiseUnlessOk(status);
  return absl::ToDoubleSeconds(elapsed);
}

void NativeClient::Watch(std::shared_ptr<Bell> bell) {
  // Nobody waits for the end of a client that has been closed.
  if (client_ == nullptr || forked()) return;
  client_->connection().set_on_ended(
      [bell = std::move(bell), ended = ended_](const absl::Status& reason) {
        static_cast<void>(reason);
        ended->store(true, std::memory_order_release);
        bell->Ring();
      });
}

void NativeClient::Close() {
  if (client_ == nullptr) return;
  std::shared_ptr<Client> client = std::move(client_);
  client_ = nullptr;
  if (forked()) {
    // The threads that it needs to end are the parent's: leave it alone, for good.
    new std::shared_ptr<Client>(std::move(client));
    return;
  }
  WithoutGil([&] {
    if (owned_) client->Close();
    client.reset();
    return true;
  });
}

}  // namespace invoker::python
