#include "src/invoke/connection.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/invoke/connect_times.h"
#include "src/invoke/fabric_choice.h"
#include "src/invoke/host_identity.h"
#include "src/transport/discovery.h"
#include "src/transport/provider_profile.h"

namespace invoker {

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(absl::string_view server,
                                                             const ClientOptions& options) {
  absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> bootstrap = [&] {
    ConnectStep step(options.times, &ConnectTimes::worker_info);
    return bootstrap::BootstrapClient::Connect(server, options.connect_timeout);
  }();
  if (!bootstrap.ok()) return bootstrap.status();
  std::unique_ptr<Connection> connection(new Connection(options, *std::move(bootstrap)));
  connection->info_ = connection->bootstrap_->worker_info();
  if (absl::Status status = connection->OpenBest(); !status.ok()) return status;
  // It is the caller's, and may go now.
  connection->options_.times = nullptr;
  return connection;
}

Connection::Connection(const ClientOptions& options,
                       std::unique_ptr<bootstrap::BootstrapClient> bootstrap)
    : options_(options), bootstrap_(std::move(bootstrap)), watch_(bootstrap_->target()) {}

Connection::~Connection() { Close(); }

bool Connection::named() const {
  return !options_.provider.empty() && options_.provider != transport::kAutoProvider;
}

// Of the worker's fabrics, only the one that the user named is left.
absl::Status Connection::KeepNamedOffer() {
  std::vector<std::string> names;
  for (const bootstrap::FabricOffer& offer : info_.fabrics) {
    if (offer.identity.provider == options_.provider) {
      const bootstrap::FabricOffer named = offer;
      info_.fabrics = {named};
      return absl::OkStatus();
    }
    names.push_back(absl::StrCat("\"", offer.identity.provider, "\""));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the worker at ", bootstrap_->target(), " does not offer provider \"", options_.provider,
      "\"; it offers ", absl::StrJoin(names, ", "), ". Name one of these, or leave the choice to ",
      "--provider=", transport::kAutoProvider));
}

absl::StatusOr<std::vector<FoundFabric>> Connection::FindOffers() const {
  ConnectStep step(options_.times, &ConnectTimes::discovery);
  std::vector<transport::FabricRequest> wanted;
  for (const bootstrap::FabricOffer& offer : info_.fabrics) {
    transport::FabricRequest request;
    request.provider = offer.identity.provider;
    request.peer_address = offer.source_address;
    request.peer_address_format = offer.identity.address_format;
    wanted.push_back(std::move(request));
  }
  FabricAddresses addresses;
  addresses.given = options_.fabric_address;
  return FindFabrics(std::move(wanted), addresses);
}

absl::Status Connection::AcquireLease() {
  ConnectStep step(options_.times, &ConnectTimes::lease);
  bootstrap::LeaseEvents events;
  events.on_lost = [this](const absl::Status& reason) { watch_.OnLost(reason); };
  events.on_session_closed = [this](uint64_t handle, absl::string_view reason) {
    watch_.OnSessionClosed(handle, reason);
  };
  absl::StatusOr<std::unique_ptr<bootstrap::Lease>> lease =
      bootstrap::Lease::Acquire(bootstrap_.get(), std::move(events), options_.connect_timeout);
  if (!lease.ok()) return lease.status();
  lease_ = *std::move(lease);
  return absl::OkStatus();
}

absl::Status Connection::OpenBest() {
  if (named()) {
    if (absl::Status status = KeepNamedOffer(); !status.ok()) return status;
  }
  absl::StatusOr<std::vector<FoundFabric>> found = FindOffers();
  if (!found.ok()) return found.status();
  std::vector<LocalFabric> local;
  for (const FoundFabric& fabric : *found) {
    LocalFabric& here = local.emplace_back();
    here.status = fabric.choice.status();
    if (!here.status.ok()) continue;
    const fi_info& info = *fabric.choice->info;
    here.identity = {fabric.choice->profile.provider, info.ep_attr->protocol,
                     info.ep_attr->protocol_version, info.addr_format};
    here.auto_rank = fabric.choice->profile.auto_rank;
  }
  const FabricPlan plan =
      ChooseFabrics(info_.fabrics, local, info_.host_identity == HostIdentity());
  std::vector<FabricFailure> failed;
  for (const size_t offer : plan.order) {
    if (lease_ == nullptr) {
      if (absl::Status status = AcquireLease(); !status.ok()) return status;
    }
    const FabricSession::Setting setting = {bootstrap_.get(), lease_->id(), &info_, &options_,
                                            &watch_};
    FabricSession::Opened opened =
        FabricSession::Open(setting, info_.fabrics[offer], *(*found)[offer].choice);
    if (opened.session != nullptr) {
      session_ = std::move(opened.session);
      fabric_choice_ = ExplainChoice(info_.fabrics, plan, offer, failed, named());
      return absl::OkStatus();
    }
    if (!opened.may_be_the_fabric) return opened.status;
    failed.push_back({offer, opened.status, ""});
  }
  return ExplainFailure(bootstrap_->target(), info_.fabrics, plan, failed);
}

void Connection::Close() {
  if (session_ != nullptr) session_->Close();
  lease_.reset();
}

}  // namespace invoker
