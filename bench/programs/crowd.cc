#include "bench/programs/crowd.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/harness/client_options.h"
#include "bench/harness/counted_memory.h"
#include "bench/programs/peer_addresses.h"
#include "bench/raw/raw_endpoint.h"
#include "src/invoke/worker/worker.h"
#include "src/transport/provider/provider_profile.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::bench {
namespace {

constexpr size_t kRawBytes = 4096;
// Held before the memory is looked at for the first time: what the first ones cost once is nobody's
// share.
constexpr uint32_t kFirstOnes = 2;

absl::StatusOr<InvokerServer> StartWorker(const CrowdOptions& options) {
  return StartInvokerServer(options.server_core, options.provider, options.address,
                            {absl::StrCat("--window=", kCrowdWindowBytes)});
}

absl::StatusOr<std::unique_ptr<ServerProcess>> StartHolder(const CrowdOptions& options,
                                                           const std::string& mode,
                                                           const std::string& server,
                                                           uint32_t count) {
  ServerProcess::Options process;
  process.core = options.client_core;
  process.command = {"bench/peers/session_holder", absl::StrCat("--provider=", options.provider),
                     absl::StrCat("--mode=", mode), absl::StrCat("--count=", count)};
  if (!server.empty()) process.command.push_back(absl::StrCat("--server=", server));
  if (transport::FindRow(options.provider).address_is_ip) {
    process.command.push_back(absl::StrCat("--address=", options.address));
  }
  // A client's queues are of no use to one that idles, and a thousand of them do not fit into this
  // machine's memory.
  process.environment = {"FI_OFI_RXM_MSG_RX_SIZE=8", "FI_OFI_RXM_MSG_TX_SIZE=8",
                         "FI_UNIVERSE_SIZE=8"};
  return ServerProcess::Start(process);
}

// "ready N REASON", once it is there.
absl::StatusOr<HeldFigures> ReadReady(const std::string& line) {
  std::istringstream words(line);
  std::string ready;
  HeldFigures figures;
  words >> ready >> figures.held;
  if (words.fail() || ready != "ready") {
    return absl::InternalError(absl::StrCat("session_holder says: ", line));
  }
  std::getline(words >> std::ws, figures.refused);
  return figures;
}

struct Held {
  std::unique_ptr<ServerProcess> holder;
  HeldFigures figures;
};

// Starts a holder and says what the worker's process grew by.
absl::StatusOr<Held> Hold(const CrowdOptions& options, const std::string& mode,
                          const InvokerServer& server, uint32_t count) {
  const absl::StatusOr<int64_t> before = server.process->ResidentBytes();
  if (!before.ok()) return before.status();
  Held held;
  absl::StatusOr<std::unique_ptr<ServerProcess>> holder =
      StartHolder(options, mode, server.target, count);
  if (!holder.ok()) return holder.status();
  held.holder = *std::move(holder);
  absl::StatusOr<std::string> line = held.holder->ReadLine();
  if (!line.ok()) return line.status();
  absl::StatusOr<HeldFigures> figures = ReadReady(*line);
  if (!figures.ok()) return figures.status();
  held.figures = *std::move(figures);
  if (held.figures.held == 0) return absl::UnavailableError(held.figures.refused);
  const absl::StatusOr<int64_t> after = server.process->ResidentBytes();
  if (!after.ok()) return after.status();
  held.figures.bytes_each = static_cast<double>(*after - *before) / held.figures.held;
  return held;
}

absl::StatusOr<HeldFigures> MeasureHeld(const CrowdOptions& options, const std::string& mode) {
  absl::StatusOr<InvokerServer> server = StartWorker(options);
  if (!server.ok()) return server.status();
  absl::StatusOr<Held> first = Hold(options, mode, *server, kFirstOnes);
  if (!first.ok()) return first.status();
  absl::StatusOr<Held> held = Hold(options, mode, *server, options.idle);
  if (!held.ok()) return held.status();
  return held->figures;
}

int64_t OwnResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Crowd>> Crowd::Start(const CrowdOptions& options) {
  std::unique_ptr<Crowd> crowd(new Crowd);
  absl::StatusOr<InvokerServer> server = StartWorker(options);
  if (!server.ok()) return server.status();
  crowd->server_ = *std::move(server);
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(crowd->server_.target, OptionsFor(options.provider));
  if (!client.ok()) return client.status();
  crowd->client_ = *std::move(client);
  absl::StatusOr<RemoteFunction> noop = crowd->client_->Function("noop");
  if (!noop.ok()) return noop.status();
  crowd->noop_ = std::make_unique<RemoteFunction>(*std::move(noop));
  if (options.idle > 0) {
    absl::StatusOr<Held> held = Hold(options, "sessions", crowd->server_, options.idle);
    if (!held.ok()) return held.status();
    crowd->holder_ = std::move(held->holder);
    crowd->idle_ = held->figures.held;
    crowd->refused_ = held->figures.refused;
  }
  crowd->name_ = absl::StrCat(crowd->idle_, " idle");
  return crowd;
}

Crowd::~Crowd() {
  if (server_.process != nullptr) (void)server_.process->Resume();
}

absl::Status Crowd::Begin() {
  if (!ended_.ok()) return ended_;
  if (absl::Status status = server_.process->Resume(); !status.ok()) return status;
  return holder_ == nullptr ? absl::OkStatus() : holder_->Pause();
}

void Crowd::End() {
  ended_ = holder_ == nullptr ? absl::OkStatus() : holder_->Resume();
  if (ended_.ok()) ended_ = server_.process->Pause();
}

absl::Status Crowd::Burst(size_t bytes, absl::Span<int64_t> times_ns) {
  request_.resize(bytes);
  for (int64_t& time_ns : times_ns) {
    const int64_t began_ns = transport::MonotonicNs();
    const absl::StatusOr<Response> response = client_->Invoke(*noop_, request_);
    time_ns = transport::MonotonicNs() - began_ns;
    if (!response.ok()) {
      return absl::Status(response.status().code(),
                          absl::StrCat("a call with ", name_, ": ", response.status().message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HeldFigures> MeasureLeases(const CrowdOptions& options) {
  return MeasureHeld(options, "leases");
}

absl::StatusOr<HeldFigures> MeasureIdleSessions(const CrowdOptions& options) {
  return MeasureHeld(options, "sessions");
}

absl::StatusOr<HeldFigures> MeasureRawPeers(const CrowdOptions& options) {
  absl::StatusOr<std::unique_ptr<RawEndpoint>> hub =
      RawEndpoint::Open(options.provider, options.address, kRawBytes);
  if (!hub.ok()) return hub.status();
  const uint32_t wanted = options.idle + kFirstOnes;
  absl::StatusOr<std::unique_ptr<ServerProcess>> holder = StartHolder(options, "raw", "", wanted);
  if (!holder.ok()) return holder.status();
  HeldFigures figures;
  malloc_trim(0);
  int64_t before = OwnResidentBytes();
  for (uint32_t met = 0;; ++met) {
    absl::StatusOr<std::string> line = (*holder)->ReadLine();
    if (!line.ok()) return line.status();
    if (line->compare(0, 6, "ready ") == 0) {
      absl::StatusOr<HeldFigures> ready = ReadReady(*line);
      if (!ready.ok()) return ready.status();
      figures = *std::move(ready);
      break;
    }
    if (met == kFirstOnes) before = OwnResidentBytes();
    absl::Status status = (*hub)->Meet(*line);
    if (!status.ok() && met > kFirstOnes) {
      figures.held = met;
      figures.refused = std::string(status.message());
      break;
    }
    if (status.ok()) status = (*holder)->WriteLine((*hub)->Describe());
    if (status.ok()) status = (*hub)->Await().status();
    if (status.ok()) status = (*hub)->Write(1, 1);
    if (status.ok()) status = (*hub)->Drain();
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("raw peer ", met, ": ", status.message()));
    }
  }
  if (figures.held <= kFirstOnes) return absl::UnavailableError(figures.refused);
  figures.held -= kFirstOnes;
  figures.bytes_each = static_cast<double>(OwnResidentBytes() - before) / figures.held;
  return figures;
}

absl::StatusOr<HeldFigures> MeasureOurs(const CrowdOptions& options) {
  WorkerOptions worker_options;
  worker_options.providers = {options.provider};
  worker_options.addresses.preferred_ip = options.address;
  worker_options.window_bytes = kCrowdWindowBytes;
  worker_options.executor.hot_timeout = absl::Milliseconds(1);
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      Worker::Start(worker_options, FunctionRegistry());
  if (!worker.ok()) return worker.status();
  absl::StatusOr<PeerAddresses> addresses = PeerAddresses::For((*worker)->fabrics().front());
  if (!addresses.ok()) return addresses.status();
  bootstrap::OpenSessionRequest request;
  request.fabric = (*worker)->Info().fabrics.front().identity;
  request.window_bytes = kCrowdWindowBytes;
  request.response_window.length = kCrowdWindowBytes;
  HeldFigures figures;
  int64_t before = OurBytes();
  for (uint32_t i = 0; i < options.idle + kFirstOnes; ++i) {
    if (i == kFirstOnes) before = OurBytes();
    request.endpoint_address = addresses->Get(i);
    const auto opened = (*worker)->OpenSession(i + 1, request);
    if (!opened.ok() && i <= kFirstOnes) return opened.status();
    if (!opened.ok()) {
      figures.refused = std::string(opened.status().message());
      break;
    }
    figures.held = i + 1 - std::min(i + 1, kFirstOnes);
  }
  figures.bytes_each = static_cast<double>(OurBytes() - before) / figures.held;
  return figures;
}

}  // namespace invoker::bench
