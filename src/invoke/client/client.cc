#include "src/invoke/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/session/call_driver.h"

namespace invoker {
namespace {

// So that this many calls of the default capacity fit into a window.
constexpr uint64_t kDefaultCallsPerWindow = 64;

Bytes AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

absl::Status TooLarge(absl::string_view what, uint64_t bytes, const WindowGeometry& geometry) {
  return WithFate(
      absl::InvalidArgumentError(absl::StrCat(
          what, " of ", bytes, " bytes is more than the session's window takes: at most ",
          geometry.MaxPayload(), " (--window=", geometry.window_bytes(), " on the server)")),
      CallFate::kNotSent);
}

absl::Status WrongBuffer(bool is_ours, size_t size, size_t has) {
  if (!is_ours) {
    return WithFate(absl::InvalidArgumentError("the buffer belongs to another client"),
                    CallFate::kNotSent);
  }
  return WithFate(absl::InvalidArgumentError(
                      absl::StrCat("the request has ", size, " bytes, its buffer ", has)),
                  CallFate::kNotSent);
}

ABSL_ATTRIBUTE_NOINLINE absl::Status NoRetry() {
  return WithFate(absl::InvalidArgumentError(
                      "a client has one executor, so that there is no other one to try: `retry` is "
                      "for the calls of a ClientGroup"),
                  CallFate::kNotSent);
}

absl::Status SetDeadline(absl::Duration timeout, ClientSession::Request* request) {
  if (timeout <= absl::ZeroDuration()) {
    return WithFate(absl::DeadlineExceededError("the timeout is not positive; nothing was sent"),
                    CallFate::kNotSent);
  }
  const int64_t timeout_ns = absl::ToInt64Nanoseconds(timeout);
  const int64_t now_ns = transport::MonotonicNs();
  request->deadline_ns = timeout_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + timeout_ns;
  return absl::OkStatus();
}

}  // namespace

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

absl::StatusOr<RemoteFunction> Client::Function(absl::string_view name) const {
  const std::vector<bootstrap::FunctionInfo> functions = connection_->functions();
  for (size_t id = 0; id < functions.size(); ++id) {
    // What has no name is not for this client.
    if (functions[id].name == name && !name.empty()) {
      return RemoteFunction(functions[id].name, static_cast<uint16_t>(id));
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

ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::Status Client::MakeRequest(
    uint16_t function, Bytes input, HeldCells cells, bool* busy, const CallOptions& options,
    ClientSession::Request* request) const {
  const WindowGeometry& geometry = driver_->geometry();
  if (ABSL_PREDICT_FALSE(input.size() > geometry.MaxPayload())) {
    return TooLarge("a request", input.size(), geometry);
  }
  uint32_t capacity = options.response_capacity;
  if (ABSL_PREDICT_FALSE(capacity > geometry.MaxPayload())) {
    return TooLarge("a response_capacity", capacity, geometry);
  }
  if (capacity == 0) {
    const uint64_t share = geometry.window_bytes() / kDefaultCallsPerWindow - geometry.overhead();
    capacity = static_cast<uint32_t>(std::max<uint64_t>(input.size(), share));
  }
  *request = {MessageKind::kRequest,
              function,
              input,
              cells,
              busy,
              capacity,
              /*deadline_ns=*/0,
              options.interrupted,
              options.when_full};
  if (ABSL_PREDICT_FALSE(options.retry != 0)) return NoRetry();
  if (ABSL_PREDICT_TRUE(options.timeout == absl::InfiniteDuration())) return absl::OkStatus();
  return SetDeadline(options.timeout, request);
}

inline absl::Status Client::MakeRequest(uint16_t function, Bytes input, const CallOptions& options,
                                        ClientSession::Request* request) const {
  return MakeRequest(function, input, HeldCells(), nullptr, options, request);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::Status Client::MakeRequest(
    uint16_t function, const Buffer& buffer, size_t size, const CallOptions& options,
    ClientSession::Request* request) const {
  if (ABSL_PREDICT_FALSE(buffer.driver_ != driver_ || size > buffer.size())) {
    return WrongBuffer(buffer.driver_ == driver_, size, buffer.size());
  }
  const Bytes input(buffer.data().data(), size);
  // The tag's place would be in what the caller has behind the request.
  if (ABSL_PREDICT_FALSE(driver_->geometry().tagged()) && size < buffer.size()) {
    return MakeRequest(function, input, HeldCells(), nullptr, options, request);
  }
  return MakeRequest(function, input, buffer.cells_, buffer.busy_.get(), options, request);
}

absl::Status Client::MakeFlaggedRequest(uint16_t function, Bytes payload, uint8_t flags, bool* busy,
                                        const CallOptions& options,
                                        ClientSession::Request* request) const {
  absl::Status status = MakeRequest(function, payload, HeldCells(), busy, options, request);
  request->flags = flags;
  return status;
}

absl::StatusOr<Response> Client::Invoke(const RemoteFunction& function, Bytes input,
                                        const CallOptions& options) {
  ClientSession::Request request;
  absl::Status status = MakeRequest(function.id(), input, options, &request);
  if (!status.ok()) return status;
  return driver_->Run(request);
}

absl::StatusOr<Response> Client::Invoke(const RemoteFunction& function, absl::string_view input,
                                        const CallOptions& options) {
  return Invoke(function, AsBytes(input), options);
}

absl::StatusOr<Response> Client::Invoke(const RemoteFunction& function, const Buffer& buffer,
                                        size_t size, const CallOptions& options) {
  ClientSession::Request request;
  absl::Status status = MakeRequest(function.id(), buffer, size, options, &request);
  if (!status.ok()) return status;
  return driver_->Run(request);
}

Future Client::StartAsync(const absl::Status& status, const ClientSession::Request& request) {
  if (!status.ok()) return Future(status);
  absl::StatusOr<Call*> call = driver_->Start(request);
  if (!call.ok()) return Future(call.status());
  return Future(driver_.get(), *call);
}

Future Client::InvokeAsync(const RemoteFunction& function, Bytes input,
                           const CallOptions& options) {
  ClientSession::Request request;
  return StartAsync(MakeRequest(function.id(), input, options, &request), request);
}

Future Client::InvokeAsync(const RemoteFunction& function, absl::string_view input,
                           const CallOptions& options) {
  return InvokeAsync(function, AsBytes(input), options);
}

Future Client::InvokeAsync(const RemoteFunction& function, const Buffer& buffer, size_t size,
                           const CallOptions& options) {
  ClientSession::Request request;
  return StartAsync(MakeRequest(function.id(), buffer, size, options, &request), request);
}

void Client::InvokeAsync(const RemoteFunction& function, Bytes input, const CallOptions& options,
                         CallDone done) {
  absl::Status status = StartCall(function, input, options, done);
  if (!status.ok()) done(std::move(status));
}

absl::Status Client::StartCall(const RemoteFunction& function, Bytes input,
                               const CallOptions& options, CallDone& done, CallTicket* ticket) {
  ClientSession::Request request;
  absl::Status status = MakeRequest(function.id(), input, options, &request);
  if (status.ok()) status = driver_->StartWithCallback(request, done, ticket);
  return status;
}

absl::Status Client::StartCall(const RemoteFunction& function, const Buffer& buffer, size_t size,
                               const CallOptions& options, CallDone& done, CallTicket* ticket) {
  ClientSession::Request request;
  absl::Status status = MakeRequest(function.id(), buffer, size, options, &request);
  if (status.ok()) status = driver_->StartWithCallback(request, done, ticket);
  return status;
}

bool Client::CancelCall(const CallTicket& ticket) { return driver_->Cancel(ticket); }

void Client::InvokeAsync(const RemoteFunction& function, const Buffer& buffer, size_t size,
                         const CallOptions& options, CallDone done) {
  absl::Status status = StartCall(function, buffer, size, options, done);
  if (!status.ok()) done(std::move(status));
}

absl::StatusOr<Buffer> Client::AllocateBuffer(size_t size) {
  if (size > max_payload()) {
    return TooLarge("a buffer", size, driver_->geometry());
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
  absl::Status status = MakeRequest(/*function=*/0, payload, exact, &request);
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
const std::string& Client::provider() const { return driver_->reactor().profile().provider; }
const std::string& Client::fabric_choice() const { return connection_->fabric_choice(); }
transport::Notification Client::notification() const { return driver_->notification(); }
const std::string& Client::downgrade_reason() const { return connection_->downgrade_reason(); }
uint64_t Client::pieces_up_to() const { return driver_->pieces_up_to(); }
uint64_t Client::method_trials() const { return driver_->method_trials(); }
uint64_t Client::max_payload() const { return driver_->geometry().MaxPayload(); }
DataAuth Client::data_auth() const { return driver_->data_auth(); }
ResponseDropCounters Client::dropped_responses() const { return driver_->dropped_responses(); }
uint32_t Client::executor() const { return connection_->executor(); }

Future::Future(Future&& other) noexcept
    : driver_(other.driver_),
      call_(std::exchange(other.call_, nullptr)),
      status_(std::move(other.status_)) {}

Future& Future::operator=(Future&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(call_, other.call_);
  std::swap(status_, other.status_);
  return *this;
}

Future::~Future() {
  if (call_ != nullptr) driver_->Drop(call_);
}

absl::StatusOr<Response> Future::Get() {
  if (call_ == nullptr) {
    if (!status_.ok()) return status_;
    return absl::FailedPreconditionError("the future's result has been taken already");
  }
  return driver_->Await(std::exchange(call_, nullptr));
}

bool Future::Cancel() { return call_ != nullptr && driver_->Cancel(call_); }

bool Future::Wait(absl::Duration limit) {
  if (call_ == nullptr) return true;
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
