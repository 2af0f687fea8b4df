#include "bench/programs/invoker_contender.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/raw/round_trips.h"

namespace invoker::bench {
namespace {

CallOptions RoomFor(size_t bytes) {
  CallOptions options;
  options.response_capacity = static_cast<uint32_t>(bytes);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InvokerContender>> InvokerContender::Start(const Options& options) {
  absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.core, options.provider, options.address, options.server_options);
  if (!server.ok()) return server.status();
  ClientOptions client_options = options.client;
  client_options.provider = options.provider;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server->target, client_options);
  if (!client.ok()) return client.status();
  absl::StatusOr<RemoteFunction> noop = (*client)->Function("noop");
  if (!noop.ok()) return noop.status();
  absl::StatusOr<RemoteFunction> echo = (*client)->Function("echo");
  if (!echo.ok()) return echo.status();
  absl::StatusOr<Buffer> request = (*client)->AllocateBuffer(options.most_bytes);
  if (!request.ok()) return request.status();
  std::unique_ptr<InvokerContender> contender(
      new InvokerContender(options.name, *std::move(server), *std::move(client), *std::move(noop),
                           *std::move(echo), *std::move(request)));
  contender->End();
  return contender;
}

InvokerContender::InvokerContender(std::string name, InvokerServer server,
                                   std::unique_ptr<Client> client, RemoteFunction noop,
                                   RemoteFunction echo, Buffer request)
    : name_(std::move(name)),
      server_(std::move(server)),
      client_(std::move(client)),
      noop_(std::move(noop)),
      echo_(std::move(echo)),
      request_(std::move(request)) {}

InvokerContender::~InvokerContender() {
  // Closing the session is a call of the server's.
  (void)server_.process->Resume();
}

absl::Status InvokerContender::Begin() {
  if (!paused_.ok()) return paused_;
  return server_.process->Resume();
}

void InvokerContender::End() { paused_ = server_.process->Pause(); }

absl::Status InvokerContender::Burst(size_t bytes, absl::Span<int64_t> times_ns) {
  const CallOptions options = RoomFor(bytes);
  Client& client = *client_;
  return TimeTrips(times_ns, [&]() -> absl::Status {
    const absl::StatusOr<Response> response = client.Invoke(noop_, {request_, bytes}, options);
    if (!response.ok()) return response.status();
    if (response->size() != bytes) {
      return absl::DataLossError(absl::StrCat("noop returned ", response->size(), " bytes"));
    }
    return absl::OkStatus();
  });
}

absl::Status InvokerContender::Verify(const std::vector<size_t>& sizes) {
  if (absl::Status status = Begin(); !status.ok()) return status;
  absl::Status status;
  for (size_t bytes : sizes) {
    const absl::Span<std::byte> request = request_.data().subspan(0, bytes);
    // Differs from size to size, so that what an earlier call left behind is not taken for right.
    for (size_t i = 0; i < bytes; ++i) request[i] = static_cast<std::byte>(i * 31 + bytes + 7);
    const absl::StatusOr<Response> response =
        client_->Invoke(echo_, {request_, bytes}, RoomFor(bytes));
    if (!response.ok()) {
      status = response.status();
    } else if (response->data() != Bytes(request)) {
      status = absl::DataLossError("echo returned something else than it got");
    }
    if (!status.ok()) {
      status = absl::Status(status.code(),
                            absl::StrCat(name_, ", echo of ", bytes, " bytes: ", status.message()));
      break;
    }
  }
  End();
  return status;
}

}  // namespace invoker::bench
