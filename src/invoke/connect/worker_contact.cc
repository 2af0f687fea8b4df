#include "src/invoke/connect/worker_contact.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/invoke/connect/connect_times.h"
#include "src/invoke/fabrics/host_identity.h"
#include "src/invoke/fabrics/offered_fabrics.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker {
namespace {

constexpr absl::Duration kLeastPeerTimeout = absl::Milliseconds(20);

}  // namespace

absl::StatusOr<std::shared_ptr<const WorkerContact>> WorkerContact::Find(
    absl::string_view server, const ClientOptions& options) {
  if (options.peer_timeout < kLeastPeerTimeout) {
    return absl::InvalidArgumentError(
        absl::StrCat("a peer timeout of ", absl::FormatDuration(options.peer_timeout),
                     " is too short: at least ", absl::FormatDuration(kLeastPeerTimeout),
                     ", or every pause of the network ends the session"));
  }
  absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> bootstrap = [&] {
    ConnectStep step(options.times, &ConnectTimes::worker_info);
    return bootstrap::BootstrapClient::Connect(server, options.connect_timeout,
                                               options.credentials);
  }();
  if (!bootstrap.ok()) return bootstrap.status();
  std::shared_ptr<WorkerContact> contact(new WorkerContact(*std::move(bootstrap)));
  contact->named_ = !options.provider.empty() && options.provider != transport::kAutoProvider;
  if (contact->named_) {
    absl::Status status = contact->KeepNamedOffer(options.provider);
    if (!status.ok()) return status;
  }
  if (absl::Status status = contact->FindFabricsHere(options); !status.ok()) return status;
  return contact;
}

WorkerContact::WorkerContact(std::unique_ptr<bootstrap::BootstrapClient> bootstrap)
    : bootstrap_(std::move(bootstrap)), info_(bootstrap_->worker_info()) {}

// Leaves only the fabric that the user named.
absl::Status WorkerContact::KeepNamedOffer(const std::string& provider) {
  std::vector<std::string> names;
  for (const bootstrap::FabricOffer& offer : info_.fabrics) {
    if (offer.identity.provider == provider) {
      const bootstrap::FabricOffer named = offer;
      info_.fabrics = {named};
      return absl::OkStatus();
    }
    names.push_back(absl::StrCat("\"", offer.identity.provider, "\""));
  }
  std::string why;
  for (const bootstrap::UnservedFabric& fabric : info_.unserved) {
    if (fabric.provider == provider) why = absl::StrCat(" (", fabric.reason, ")");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the worker at ", target(), " does not offer provider \"", provider, "\"", why,
      "; it offers ", absl::StrJoin(names, ", "), ". Name one of these, or leave the choice to ",
      "--provider=", transport::kAutoProvider));
}

absl::Status WorkerContact::FindFabricsHere(const ClientOptions& options) {
  ConnectStep step(options.times, &ConnectTimes::discovery);
  FabricAddresses addresses;
  addresses.given = options.fabric_address;
  absl::StatusOr<OfferedFabrics> fabrics = FindOfferedFabrics(info_.fabrics, addresses);
  if (!fabrics.ok()) return fabrics.status();
  found_ = std::move(fabrics->found);
  std::vector<LocalFabric>& local = fabrics->local;
  for (size_t i = 0; options.worker_in_this_process && i < local.size(); ++i) {
    const bootstrap::FabricOffer& offer = info_.fabrics[i];
    if (!offer.same_host_only) continue;
    local[i].status = absl::FailedPreconditionError(
        absl::StrCat("the worker is in this very process, and ", offer.identity.provider,
                     " is for two processes; serve another fabric as well"));
  }
  plan_ = ChooseFabrics(info_.fabrics, local, info_.host_identity == HostIdentity());
  return absl::OkStatus();
}

absl::Status WorkerContact::Usable() const {
  if (!plan_.order.empty()) return absl::OkStatus();
  return ExplainFailure(target(), info_.fabrics, plan_, {});
}

absl::StatusOr<WorkerContact::Opened> WorkerContact::OpenSession(
    uint64_t lease, uint32_t executor, SessionWatch* watch, const ClientOptions* options) const {
  const FabricSession::Setting setting = {bootstrap_.get(), lease,   executor,
                                          &info_,           options, watch};
  std::vector<FabricFailure> failed;
  for (const size_t offer : plan_.order) {
    FabricSession::Opened opened =
        FabricSession::Open(setting, info_.fabrics[offer], *found_[offer].choice);
    if (opened.session != nullptr) {
      return Opened{std::move(opened.session),
                    ExplainChoice(info_.fabrics, plan_, offer, failed, named_)};
    }
    if (!opened.may_be_the_fabric) return opened.status;
    failed.push_back({offer, opened.status, ""});
  }
  return ExplainFailure(target(), info_.fabrics, plan_, failed);
}

}  // namespace invoker
