#include "bench/programs/transfers.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/harness/client_options.h"
#include "bench/raw/turn_meter.h"

namespace invoker::bench {
namespace {

constexpr uint64_t kHeaderBytes = 32;  // in front of every payload (docs/reference/wire_format.md)
constexpr size_t kCountBytes = 8;      // what source takes
// What a response without a payload has room for all the same: 0 would ask for the default.
constexpr uint32_t kSmallResponse = 64;

absl::Status CheckSize(const absl::StatusOr<Response>& response, uint64_t bytes) {
  if (!response.ok()) return response.status();
  if (response->size() == bytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("a call returned ", response->size(), " bytes instead of ", bytes));
}

absl::string_view FunctionFor(Direction direction) {
  switch (direction) {
    case Direction::kRequest:
      return "sink";
    case Direction::kResponse:
      return "source";
    case Direction::kBoth:
      break;
  }
  return "noop";
}

}  // namespace

absl::string_view DirectionName(Direction direction) {
  switch (direction) {
    case Direction::kRequest:
      return "request";
    case Direction::kResponse:
      return "response";
    case Direction::kBoth:
      break;
  }
  return "both";
}

StreamShape RawStreamFor(Direction direction, uint64_t bytes, int in_flight) {
  StreamShape shape = RawCallsFor(Direction::kBoth, bytes, in_flight);
  if (direction == Direction::kRequest) shape.pattern = StreamPattern::kOutward;
  if (direction == Direction::kResponse) shape.pattern = StreamPattern::kInward;
  return shape;
}

StreamShape RawCallsFor(Direction direction, uint64_t bytes, int in_flight) {
  StreamShape shape;
  shape.pattern = StreamPattern::kAnswered;
  shape.bytes = direction == Direction::kResponse ? kHeaderBytes + kCountBytes : bytes;
  shape.answer_bytes = direction == Direction::kRequest ? kHeaderBytes : bytes;
  shape.slot_bytes = bytes;
  shape.in_flight = static_cast<uint32_t>(in_flight);
  return shape;
}

absl::StatusOr<std::unique_ptr<Transfers>> Transfers::Start(int core, const std::string& provider,
                                                            const std::string& address,
                                                            const std::string& window) {
  std::vector<std::string> more;
  if (!window.empty()) more.push_back(absl::StrCat("--window=", window));
  absl::StatusOr<InvokerServer> server = StartInvokerServer(core, provider, address, more);
  if (!server.ok()) return server.status();
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(server->target, OptionsFor(provider));
  if (!client.ok()) return client.status();
  return std::unique_ptr<Transfers>(new Transfers(*std::move(server), *std::move(client)));
}

Transfers::Transfers(InvokerServer server, std::unique_ptr<Client> client)
    : server_(std::move(server)),
      client_(std::move(client)),
      window_bytes_(client_->max_payload() + kHeaderBytes) {}

Transfers::~Transfers() { server_.process->Resume().IgnoreError(); }

absl::StatusOr<std::vector<Buffer>> Transfers::MakeBuffers(uint64_t bytes, int count) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<Buffer> buffer = client_->AllocateBuffer(bytes);
    if (!buffer.ok()) return buffer.status();
    buffers.push_back(*std::move(buffer));
  }
  return buffers;
}

absl::StatusOr<int> Transfers::Fitting(uint64_t bytes, int wanted) {
  if (bytes > client_->max_payload()) return 0;
  std::vector<Buffer> buffers;
  while (static_cast<int>(buffers.size()) < wanted) {
    absl::StatusOr<Buffer> buffer = client_->AllocateBuffer(bytes);
    if (absl::IsResourceExhausted(buffer.status())) break;
    if (!buffer.ok()) return buffer.status();
    buffers.push_back(*std::move(buffer));
  }
  return static_cast<int>(buffers.size());
}

absl::Status Transfers::Touch(uint64_t bytes, int outstanding) {
  absl::StatusOr<RemoteFunction> echo = client_->Function("echo");
  if (!echo.ok()) return echo.status();
  absl::StatusOr<std::vector<Buffer>> buffers = MakeBuffers(bytes, outstanding);
  if (!buffers.ok()) return buffers.status();
  CallOptions options;
  options.response_capacity = static_cast<uint32_t>(bytes);
  std::vector<Future> calls;
  for (const Buffer& buffer : *buffers) {
    memset(buffer.data().data(), 'i', buffer.size());
    calls.push_back(client_->InvokeAsync(*echo, {buffer, bytes}, options));
  }
  // Held until the last, so that each has had cells of its own.
  std::vector<Response> responses;
  for (Future& call : calls) {
    absl::StatusOr<Response> response = call.Get();
    if (absl::Status status = CheckSize(response, bytes); !status.ok()) return status;
    responses.push_back(*std::move(response));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Transfers::Turn(Direction direction, uint64_t bytes, int outstanding,
                                       int64_t turn_ns) {
  absl::StatusOr<RemoteFunction> function = client_->Function(FunctionFor(direction));
  if (!function.ok()) return function.status();
  const uint64_t request_bytes = direction == Direction::kResponse ? kCountBytes : bytes;
  const uint64_t response_bytes = direction == Direction::kRequest ? 0 : bytes;
  absl::StatusOr<std::vector<Buffer>> buffers = MakeBuffers(request_bytes, outstanding);
  if (!buffers.ok()) return buffers.status();
  if (direction == Direction::kResponse) {
    for (const Buffer& buffer : *buffers) {
      for (size_t i = 0; i < kCountBytes; ++i) {
        buffer.data()[i] = static_cast<std::byte>(bytes >> (8 * i));
      }
    }
  }
  CallOptions options;
  options.response_capacity =
      direction == Direction::kRequest ? kSmallResponse : static_cast<uint32_t>(bytes);
  TurnMeter meter(turn_ns, nullptr);
  std::vector<Future> calls;
  for (const Buffer& buffer : *buffers) {
    calls.push_back(client_->InvokeAsync(*function, {buffer, request_bytes}, options));
  }
  // Once the turn is over, each is awaited and none is started.
  size_t under_way = calls.size();
  for (size_t i = 0; under_way > 0; i = (i + 1) % calls.size()) {
    absl::Status status = CheckSize(calls[i].Get(), response_bytes);
    if (!status.ok()) return status;
    if (under_way == calls.size() && meter.Complete(0, ClockNs())) {
      calls[i] = client_->InvokeAsync(*function, {(*buffers)[i], request_bytes}, options);
    } else {
      --under_way;
    }
  }
  return meter.PerSecond();
}

}  // namespace invoker::bench
