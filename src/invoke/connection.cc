#include "src/invoke/connection.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/host_identity.h"
#include "src/transport/discovery.h"

namespace invoker {
namespace {

using transport::Notification;
using transport::NotificationName;

// Long enough for a busy worker, short enough for a user who presses Ctrl-C.
constexpr absl::Duration kCloseTimeout = absl::Seconds(2);

// How often a probe that has not come back is given another probe_timeout, each after the executor
// has taken a turn.
constexpr int kProbeRounds = 1;

absl::Status InStep(absl::string_view step, const absl::Status& status) {
  absl::Status result(status.code(), absl::StrCat(step, ": ", status.message()));
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(absl::string_view server,
                                                             const ClientOptions& options) {
  std::unique_ptr<Connection> connection(new Connection(options));
  absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> bootstrap =
      bootstrap::BootstrapClient::Connect(server, options.connect_timeout);
  if (!bootstrap.ok()) return bootstrap.status();
  connection->bootstrap_ = *std::move(bootstrap);
  absl::StatusOr<bootstrap::WorkerInfo> info =
      connection->bootstrap_->GetWorkerInfo(options.connect_timeout);
  if (!info.ok()) return info.status();
  connection->info_ = *std::move(info);
  if (absl::Status status = connection->OpenFabric(); !status.ok()) return status;
  if (absl::Status status = connection->OpenSession(); !status.ok()) return status;
  const absl::Status proof = connection->ProvePath();
  if (proof.ok()) return connection;
  if (!connection->BothAuto() || connection->session_.notification != Notification::kWriteImm ||
      connection->driver()->status().ok()) {
    return proof;
  }
  // The fabric does not merely lose immediates, it fails them, and the session with them: a new one
  // does without.
  connection.reset();
  ClientOptions fallback = options;
  fallback.notification = Notification::kSendAfterWrite;
  absl::StatusOr<std::unique_ptr<Connection>> second = Open(server, fallback);
  if (!second.ok()) return proof;
  (*second)->downgrade_reason_ = absl::StrCat("a write with immediate failed (", proof.message(),
                                              "); using send_after_write instead");
  return second;
}

Connection::~Connection() { Close(); }

absl::Status Connection::OpenFabric() {
  const bootstrap::FabricIdentity& theirs = info_.fabric;
  transport::FabricRequest request;
  request.provider = options_.provider.empty() ? theirs.provider : options_.provider;
  request.address = options_.fabric_address;
  if (request.provider == theirs.provider) {
    request.peer_address = info_.endpoint_address;
    request.peer_address_format = theirs.address_format;
  }
  absl::StatusOr<transport::FabricChoice> choice = transport::Discover(request);
  if (!choice.ok()) return InStep("choosing this side's fabric", choice.status());
  if (choice->profile.same_host_only && info_.host_identity != HostIdentity()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the worker offers provider \"", theirs.provider,
        "\", which works within one host only, and this client is on another one; start the "
        "server with another --provider"));
  }
  absl::StatusOr<std::unique_ptr<transport::Reactor>> reactor =
      transport::Reactor::Open(*std::move(choice), transport::ReactorOptions());
  if (!reactor.ok()) return reactor.status();
  driver_ = std::make_shared<CallDriver>(*std::move(reactor), options_.hot_timeout);
  ClientSession::Options session;
  session.window_bytes = options_.window_bytes == 0 ? info_.window_bytes : options_.window_bytes;
  session.first_sequence = options_.first_sequence;
  return driver_->Prepare(session);
}

absl::Status Connection::OpenSession() {
  bootstrap::LeaseEvents events;
  events.on_lost = [this](const absl::Status& reason) { OnLost(reason); };
  events.on_session_closed = [this](uint64_t handle, absl::string_view reason) {
    if (handle == handle_.load()) {
      OnLost(absl::UnavailableError(absl::StrCat("the worker ended the session: ", reason)));
    }
  };
  absl::StatusOr<std::unique_ptr<bootstrap::Lease>> lease =
      bootstrap::Lease::Acquire(bootstrap_.get(), std::move(events), options_.connect_timeout);
  if (!lease.ok()) return lease.status();
  lease_ = *std::move(lease);

  const transport::Reactor& reactor = driver_->reactor();
  Notification wanted = options_.notification;
  if (wanted == Notification::kAuto &&
      reactor.profile().notification == Notification::kSendAfterWrite) {
    wanted = Notification::kSendAfterWrite;
  }
  bootstrap::OpenSessionRequest request = driver_->MakeRequest(wanted);
  request.fabric = {reactor.profile().provider, reactor.info().ep_attr->protocol,
                    reactor.info().ep_attr->protocol_version, reactor.info().addr_format};
  absl::StatusOr<bootstrap::OpenSessionReply> reply =
      bootstrap_->OpenSession(lease_->id(), request, options_.connect_timeout);
  if (!reply.ok()) return reply.status();
  session_ = *std::move(reply);
  handle_ = session_.handle;
  return driver_->Attach(session_);
}

bool Connection::BothAuto() const {
  return options_.notification == Notification::kAuto && info_.notification == Notification::kAuto;
}

// Never trusts an advertised capability: bytes must have crossed, both ways, before a session is
// live.
absl::Status Connection::ProvePath() {
  absl::Status first = Probe();
  // A session that still stands has not been refuted.
  if (first.ok() || (absl::IsUnavailable(first) && driver_->status().ok())) return first;
  std::string tried(NotificationName(session_.notification));
  absl::Status last = first;
  if (session_.notification == Notification::kWriteImm && BothAuto() &&
      absl::IsDeadlineExceeded(first)) {
    absl::Status switched = bootstrap_->SwitchNotification(
        lease_->id(), session_.handle, Notification::kSendAfterWrite, options_.connect_timeout);
    if (!switched.ok()) return InStep("switching to send_after_write", switched);
    session_.notification = Notification::kSendAfterWrite;
    driver_->SetNotification(Notification::kSendAfterWrite);
    downgrade_reason_ = absl::StrCat("a write with immediate did not come back within ",
                                     absl::FormatDuration(options_.probe_timeout),
                                     "; using send_after_write instead");
    last = Probe();
    if (last.ok()) return last;
    absl::StrAppend(&tried, ", then send_after_write");
  }
  const bootstrap::FabricIdentity& theirs = info_.fabric;
  return absl::UnavailableError(absl::StrCat(
      "the worker at ", bootstrap_->target(), " answers the bootstrap, but its data path over \"",
      theirs.provider, "\" does not: tried ", tried, ", each for ",
      absl::FormatDuration(options_.probe_timeout), " (", last.message(), "). Address format here ",
      driver_->reactor().info().addr_format, ", there ", theirs.address_format,
      "; this side's fabric address is ", transport::DescribeSource(driver_->reactor().info()),
      ". Check that the fabric's own traffic can pass between the hosts (firewall, interface: "
      "--fabric_address)"));
}

absl::Status Connection::Probe() {
  std::array<std::byte, 16> nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    return absl::InternalError("getrandom failed");
  }
  ClientSession::Request request;
  request.kind = MessageKind::kProbe;
  request.input = nonce;
  request.response_capacity = nonce.size();
  absl::StatusOr<Call*> call = driver_->Start(request);
  if (!call.ok()) return call.status();
  for (int round = 0; !AwaitProbe(*call); ++round) {
    // Lost, or waiting behind a function that runs? The bootstrap answers this only after the
    // executor's next turn.
    const absl::Status turned = bootstrap_->SwitchNotification(
        lease_->id(), session_.handle, session_.notification, options_.connect_timeout);
    if (!turned.ok() || round == kProbeRounds) {
      driver_->Drop(*call);
      if (turned.ok()) return absl::DeadlineExceededError("no answer to the probe");
      return absl::UnavailableError(absl::StrCat(
          "the worker's executor takes no turn, perhaps because it runs a long function: ",
          turned.message()));
    }
  }
  absl::StatusOr<Response> response = driver_->Await(*call);
  if (!response.ok()) return response.status();
  const bool same = response->size() == nonce.size() &&
                    std::equal(nonce.begin(), nonce.end(), response->data().begin());
  if (!same) return absl::DataLossError("the probe came back with other bytes than it left with");
  return absl::OkStatus();
}

bool Connection::AwaitProbe(Call* call) {
  return driver_->AwaitEnd(
      call, transport::MonotonicNs() + absl::ToInt64Nanoseconds(options_.probe_timeout));
}

void Connection::OnLost(const absl::Status& reason) {
  driver_->FailAfterDelivery(absl::UnavailableError(absl::StrCat(
      "the session with the worker at ", bootstrap_->target(), " has ended: ", reason.message())));
}

void Connection::Close() {
  if (driver_ != nullptr) driver_->Close();
  if (lease_ == nullptr) return;
  if (const uint64_t handle = handle_.exchange(0); handle != 0) {
    // The lease's end closes the session as well, if this does not get through.
    bootstrap_->CloseSession(lease_->id(), handle, kCloseTimeout).IgnoreError();
  }
  lease_.reset();
}

}  // namespace invoker
