#include "invoker/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/invoke/client/call_starter.h"
#include "src/invoke/client/memory_call.h"
#include "src/invoke/client/request_maker.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {

absl::Status TooLargeForWindow(absl::string_view what, uint64_t bytes,
                               const WindowGeometry& geometry) {
  return WithFate(
      absl::InvalidArgumentError(absl::StrCat(
          what, " of ", bytes, " bytes is more than the session's window takes: at most ",
          geometry.MaxPayload(), " (--window=", geometry.window_bytes(), " on the server)")),
      CallFate::kNotSent);
}

absl::Status RequestMaker::WrongBuffer(bool is_ours, size_t size, size_t has) {
  if (!is_ours) {
    return WithFate(absl::InvalidArgumentError("the buffer belongs to another client"),
                    CallFate::kNotSent);
  }
  return WithFate(absl::InvalidArgumentError(
                      absl::StrCat("the request has ", size, " bytes, its buffer ", has)),
                  CallFate::kNotSent);
}

absl::Status RequestMaker::NoRetry() {
  return WithFate(absl::InvalidArgumentError(
                      "a client has one executor, so that there is no other one to try: `retry` is "
                      "for the calls of a ClientGroup"),
                  CallFate::kNotSent);
}

absl::Status RequestMaker::SetDeadline(absl::Duration timeout, ClientSession::Request* request) {
  if (timeout <= absl::ZeroDuration()) {
    return WithFate(absl::DeadlineExceededError("the timeout is not positive; nothing was sent"),
                    CallFate::kNotSent);
  }
  const int64_t timeout_ns = absl::ToInt64Nanoseconds(timeout);
  const int64_t now_ns = transport::MonotonicNs();
  request->deadline_ns = timeout_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + timeout_ns;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view server,
                                                        const ClientOptions& options) {
  absl::StatusOr<std::unique_ptr<Connection>> connection = Connection::Open(server, options);
  if (!connection.ok()) return connection.status();
  return Of(*std::move(connection));
}

std::unique_ptr<Client> Client::Of(std::unique_ptr<Connection> connection) {
  return std::unique_ptr<Client>(new Client(std::move(connection)));
}

Client::Client(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)), driver_(connection_->driver()) {}

Client::~Client() { Close(); }

void Client::Close() { connection_->Close(); }

absl::Status CheckSignature(absl::string_view function, absl::string_view workers,
                            absl::string_view callers) {
  if (workers == callers) return absl::OkStatus();
  if (workers.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the worker's function \"", function,
                     "\" takes and returns bytes, and the caller takes it for ", callers,
                     "; call it with bytes"));
  }
  return absl::InvalidArgumentError(absl::StrCat("the worker's function \"", function, "\" is ",
                                                 workers, ", and the caller takes it for ",
                                                 callers.empty() ? "one of bytes" : callers));
}

absl::StatusOr<RemoteFunction> Client::Function(absl::string_view name) const {
  const std::vector<bootstrap::FunctionInfo> functions = connection_->functions();
  for (size_t id = 0; id < functions.size(); ++id) {
    // What has no name is not for this client.
    if (functions[id].name == name && !name.empty()) {
      return RemoteFunction(functions[id].name, static_cast<uint16_t>(id), functions[id].signature);
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "the worker has no function \"", name,
      "\"; it has: ", functions.empty() ? "none" : absl::StrJoin(FunctionNames(), ", ")));
}

std::vector<std::string> Client::FunctionNames() const {
  std::vector<std::string> names;
  for (bootstrap::FunctionInfo& function : connection_->functions()) {
    if (!function.name.empty()) names.push_back(std::move(function.name));
  }
  return names;
}

absl::StatusOr<Response> Client::InvokeBytes(const RemoteFunction& function, Bytes input,
                                             const CallOptions& options) {
  if (ABSL_PREDICT_FALSE(RequestMaker::NeedsMemory(*driver_, input, options))) {
    return InvokeWithMemory(function, input, options);
  }
  ClientSession::Request request;
  absl::Status status = RequestMaker::Make(*driver_, function.id(), input, HeldCells(),
                                           /*busy=*/nullptr, options, &request);
  if (!status.ok()) return status;
  return driver_->Run(request);
}

absl::StatusOr<Response> Client::InvokeBuffer(const RemoteFunction& function, const Buffer& buffer,
                                              size_t size, const CallOptions& options) {
  // Apart from the one that another function sees, so that this one needs no memory.
  const CallInput input(buffer, size);
  if (ABSL_PREDICT_FALSE(RequestMaker::NeedsMemory(*driver_, input, options))) {
    return InvokeWithMemory(function, CallInput(buffer, size), options);
  }
  ClientSession::Request request;
  absl::Status status = RequestMaker::Make(*driver_, function.id(), input, options, &request);
  if (!status.ok()) return status;
  return driver_->Run(request);
}

absl::StatusOr<Response> Client::InvokeOther(const RemoteFunction& function, const CallInput& input,
                                             const CallOptions& options) {
  if (ABSL_PREDICT_FALSE(RequestMaker::NeedsMemory(*driver_, input, options))) {
    return InvokeWithMemory(function, input, options);
  }
  ClientSession::Request request;
  absl::Status status = RequestMaker::Make(*driver_, function.id(), input, options, &request);
  if (!status.ok()) return status;
  return driver_->Run(request);
}

absl::StatusOr<Response> Client::InvokeWithMemory(const RemoteFunction& function,
                                                  const CallInput& input,
                                                  const CallOptions& options) {
  absl::StatusOr<std::unique_ptr<MemoryCall>> call =
      MemoryCall::Make(this, function, input, options);
  if (!call.ok()) return call.status();
  absl::StatusOr<Response> response = driver_->Run((*call)->request());
  (*call)->Started();
  return (*call)->Finish(std::move(response));
}

namespace {

// If it returns an error, `done` has not been taken.
absl::Status StartWithCallback(CallDriver* driver, const ClientSession::Request& request,
                               std::unique_ptr<MemoryCall> memory, CallDone& done,
                               CallTicket* ticket, bool comes_back = false) {
  if (ABSL_PREDICT_TRUE(memory == nullptr)) {
    return driver->StartWithCallback(request, done, ticket, comes_back);
  }
  struct Pending {
    std::unique_ptr<MemoryCall> memory;
    CallDone done;
  };
  const auto pending = std::make_shared<Pending>(Pending{std::move(memory), std::move(done)});
  CallDone finish = [pending](absl::StatusOr<Response> response) {
    pending->done(pending->memory->Finish(std::move(response)));
  };
  absl::Status status = driver->StartWithCallback(request, finish, ticket, comes_back);
  pending->memory->Started();
  if (!status.ok()) done = std::move(pending->done);
  return status;
}

}  // namespace

Future Client::InvokeAsync(const RemoteFunction& function, const CallInput& input,
                           const CallOptions& options, CallDone done) {
  if (done) {
    CallTicket ticket;
    absl::Status status = CallStarter::Start(*this, function, input, options, done, &ticket);
    if (!status.ok()) done(std::move(status));
    return Future(driver_.get(), ticket.call, ticket.sequence);
  }
  absl::StatusOr<Future> future = CallStarter::Start(*this, function, input, options);
  return future.ok() ? *std::move(future) : Future(future.status());
}

// The session's request of a call. `memory` is set if the call has some of its own; the call has to
// keep it then.
absl::Status CallStarter::Make(Client& client, const RemoteFunction& function,
                               const CallInput& input, const CallOptions& options,
                               ClientSession::Request* request,
                               std::unique_ptr<MemoryCall>* memory) {
  if (ABSL_PREDICT_TRUE(!RequestMaker::NeedsMemory(*client.driver_, input, options))) {
    return RequestMaker::Make(*client.driver_, function.id(), input, options, request);
  }
  absl::StatusOr<std::unique_ptr<MemoryCall>> made =
      MemoryCall::Make(&client, function, input, options);
  if (!made.ok()) return made.status();
  *memory = *std::move(made);
  *request = (*memory)->request();
  return absl::OkStatus();
}

absl::StatusOr<Future> CallStarter::Start(Client& client, const RemoteFunction& function,
                                          const CallInput& input, const CallOptions& options) {
  ClientSession::Request request;
  std::unique_ptr<MemoryCall> memory;
  absl::Status status = Make(client, function, input, options, &request, &memory);
  if (!status.ok()) return status;
  return Start(client, request, std::move(memory));
}

absl::StatusOr<Future> CallStarter::Start(Client& client, const ClientSession::Request& request,
                                          std::unique_ptr<MemoryCall> memory) {
  absl::StatusOr<Call*> call = client.driver_->Start(request);
  if (memory != nullptr) memory->Started();
  if (!call.ok()) return call.status();
  return Future(client.driver_.get(), *call, std::move(memory));
}

absl::Status CallStarter::Start(Client& client, const RemoteFunction& function,
                                const CallInput& input, const CallOptions& options, CallDone& done,
                                CallTicket* ticket, bool comes_back) {
  ClientSession::Request request;
  std::unique_ptr<MemoryCall> memory;
  absl::Status status = Make(client, function, input, options, &request, &memory);
  if (!status.ok()) return status;
  return StartWithCallback(client.driver_.get(), request, std::move(memory), done, ticket,
                           comes_back);
}

absl::Status CallStarter::MakeStore(Client& client, StoreOperation operation,
                                    const CallInput& input, const CallOptions& options,
                                    ClientSession::Request* request,
                                    std::unique_ptr<MemoryCall>* memory) {
  const RemoteFunction store("", static_cast<uint16_t>(operation), "");
  absl::Status status = Make(client, store, input, options, request, memory);
  request->flags |= kStore;
  return status;
}

absl::StatusOr<Future> CallStarter::StartStore(Client& client, StoreOperation operation,
                                               const CallInput& input, const CallOptions& options) {
  ClientSession::Request request;
  std::unique_ptr<MemoryCall> memory;
  absl::Status status = MakeStore(client, operation, input, options, &request, &memory);
  if (!status.ok()) return status;
  return Start(client, request, std::move(memory));
}

absl::Status CallStarter::StartStore(Client& client, StoreOperation operation,
                                     const CallInput& input, const CallOptions& options,
                                     CallDone& done) {
  ClientSession::Request request;
  std::unique_ptr<MemoryCall> memory;
  absl::Status status = MakeStore(client, operation, input, options, &request, &memory);
  if (!status.ok()) return status;
  return StartWithCallback(client.driver_.get(), request, std::move(memory), done, nullptr);
}

absl::Status CallStarter::CheckForAnyClient(const CallInput& input, const CallOptions& options) {
  const char* what = nullptr;
  if (input.kind_ == CallInput::Kind::kBuffer) what = "a Buffer";
  if (input.kind_ == CallInput::Kind::kWindow) what = "a RegisteredWindow";
  if (options.output.kind_ == CallOutput::Kind::kWindow) what = "a RegisteredWindow";
  if (what == nullptr) return absl::OkStatus();
  return WithFate(absl::InvalidArgumentError(absl::StrCat(
                      what,
                      " belongs to one client, and a call of a group goes to any: call that "
                      "client, or give the group bytes and memory")),
                  CallFate::kNotSent);
}

bool CallStarter::UsesCallersMemory(const Client& client, const CallInput& input,
                                    const CallOptions& options) {
  return input.size() > client.max_payload() || options.output.kind_ == CallOutput::Kind::kMemory;
}

std::string CallStarter::CopyOf(const CallInput& input) {
  if (input.kind_ != CallInput::Kind::kWritten) {
    return std::string(reinterpret_cast<const char*>(input.bytes_.data()), input.size());
  }
  std::string copy(input.size(), '\0');
  input.WriteTo(reinterpret_cast<std::byte*>(copy.data()));
  return copy;
}

bool CallStarter::Cancel(Client& client, const CallTicket& ticket) {
  return client.driver_->Cancel(ticket);
}

absl::StatusOr<Buffer> Client::AllocateBuffer(size_t size) {
  if (size > max_payload()) {
    return TooLargeForWindow("a buffer", size, driver_->geometry());
  }
  absl::StatusOr<HeldCells> cells = driver_->AllocateBuffer(size);
  if (!cells.ok()) return cells.status();
  return Buffer(driver_, *cells, size);
}

absl::Status Client::Ping(Bytes payload, const CallOptions& options) {
  CallOptions exact = options;
  // A capacity of 0 would mean the default.
  exact.response_capacity = static_cast<uint32_t>(std::max<size_t>(payload.size(), 1));
  ClientSession::Request request;
  if (RequestMaker::NeedsMemory(*driver_, payload, exact)) {
    return TooLargeForWindow("a ping", payload.size(), driver_->geometry());
  }
  absl::Status status = RequestMaker::Make(*driver_, /*function=*/0, payload, exact, &request);
  if (!status.ok()) return status;
  request.kind = MessageKind::kProbe;
  absl::StatusOr<Response> response = driver_->Run(request);
  if (!response.ok()) return response.status();
  const bool same = response->size() == payload.size() &&
                    std::equal(payload.begin(), payload.end(), response->data().begin());
  if (!same) return absl::DataLossError("a ping came back with other bytes than it left with");
  return absl::OkStatus();
}

absl::Status Client::status() const { return driver_->status(); }
const std::string& Client::server() const { return connection_->server(); }
const std::string& Client::provider() const { return connection_->provider(); }
const std::string& Client::fabric_choice() const { return connection_->fabric_choice(); }
Notification Client::notification() const { return driver_->notification(); }
const std::string& Client::downgrade_reason() const { return connection_->downgrade_reason(); }
uint64_t Client::pieces_up_to() const { return driver_->pieces_up_to(); }
uint64_t Client::method_trials() const { return driver_->method_trials(); }
uint64_t Client::max_payload() const { return driver_->geometry().MaxPayload(); }
DataAuth Client::data_auth() const { return driver_->data_auth(); }
ResponseDropCounters Client::dropped_responses() const { return driver_->Counts().dropped; }
uint32_t Client::executor() const { return connection_->executor(); }
uint64_t Client::session() const { return driver_->session(); }

Future::Future(CallDriver* driver, Call* call, std::unique_ptr<MemoryCall> memory)
    : driver_(driver), call_(call), memory_(std::move(memory)) {}

Future::Future(CallDriver* driver, Call* call, uint64_t sequence)
    : driver_(driver), call_(call), sequence_(sequence), has_callback_(true) {}

Future::Future(absl::Status status) : status_(std::move(status)) {}

Future::Future(Future&& other) noexcept
    : driver_(other.driver_),
      call_(std::exchange(other.call_, nullptr)),
      sequence_(other.sequence_),
      has_callback_(other.has_callback_),
      status_(std::move(other.status_)),
      memory_(std::move(other.memory_)) {}

Future& Future::operator=(Future&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(call_, other.call_);
  std::swap(sequence_, other.sequence_);
  std::swap(has_callback_, other.has_callback_);
  std::swap(status_, other.status_);
  std::swap(memory_, other.memory_);
  return *this;
}

Future::~Future() {
  if (call_ != nullptr && !has_callback_) driver_->Drop(call_);
}

absl::StatusOr<Response> Future::Get() {
  if (has_callback_) {
    return absl::FailedPreconditionError("the call has a callback, which gets its result");
  }
  if (call_ == nullptr) {
    if (!status_.ok()) return status_;
    return absl::FailedPreconditionError("the future's result has been taken already");
  }
  absl::StatusOr<Response> response = driver_->Await(std::exchange(call_, nullptr));
  if (memory_ == nullptr) return response;
  return std::exchange(memory_, nullptr)->Finish(std::move(response));
}

bool Future::Cancel() {
  if (call_ == nullptr) return false;
  return has_callback_ ? driver_->Cancel(CallTicket{call_, sequence_}) : driver_->Cancel(call_);
}

bool Future::Wait(absl::Duration limit) {
  if (call_ == nullptr || has_callback_) return true;
  const int64_t limit_ns = absl::ToInt64Nanoseconds(std::min(limit, absl::Hours(24 * 365)));
  return driver_->AwaitEnd(call_, transport::MonotonicNs() + limit_ns);
}

Buffer::Buffer(std::shared_ptr<CallDriver> driver, HeldCells cells, size_t size)
    : driver_(std::move(driver)),
      cells_(cells),
      data_(driver_->BufferData(cells), size),
      busy_(std::make_unique<bool>(false)) {}

Buffer::Buffer(Buffer&& other) noexcept
    : driver_(std::move(other.driver_)),
      cells_(other.cells_),
      data_(std::exchange(other.data_, absl::Span<std::byte>())),
      busy_(std::move(other.busy_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(cells_, other.cells_);
  std::swap(data_, other.data_);
  std::swap(busy_, other.busy_);
  return *this;
}

Buffer::~Buffer() {
  if (driver_ != nullptr) driver_->FreeBuffer(cells_, busy_.get());
}

}  // namespace invoker
