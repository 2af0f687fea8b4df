#include "src/cluster/registration.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/start_thread.h"
#include "src/cluster/cluster_address.h"
#include "src/cluster/own_address.h"
#include "src/log/log.h"

namespace invoker::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr absl::Duration kPeriod = absl::Seconds(1);
constexpr int kStepsPerTtl = 3;  // two may be lost
// A server that is to end does not wait longer for etcd.
constexpr absl::Duration kLeaveLimit = absl::Seconds(3);

bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

absl::StatusOr<std::string> AddressToAdvertise(const RegistrationOptions& options,
                                               absl::string_view listen,
                                               const bootstrap::HostPort& etcd) {
  if (!options.advertise.empty()) return options.advertise;
  absl::StatusOr<bootstrap::HostPort> address = bootstrap::ParseHostPort(listen);
  if (!address.ok()) return address.status();
  if (!IsWildcard(address->host)) return std::string(listen);
  absl::StatusOr<std::string> host = OwnAddressTowards(etcd);
  if (!host.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the server listens at every interface, and which of them clients are to use "
                     "is not known: ",
                     host.status().message(), "; name it with --advertise=HOST:PORT"));
  }
  return bootstrap::FormatHostPort({*std::move(host), address->port});
}

}  // namespace

absl::Status Registration::Check(const RegistrationOptions& options) {
  if (options.cluster.empty()) {
    if (options.advertise.empty() && options.labels.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "an address to advertise and labels are for a server in a cluster: add --cluster");
  }
  absl::StatusOr<EtcdAddress> address = ParseEtcdAddress(options.cluster);
  if (!address.ok()) return address.status();
  if (!options.advertise.empty()) {
    absl::Status status = bootstrap::ParseHostPort(options.advertise).status();
    if (!status.ok()) return status;
  }
  return EtcdClient::Make(*address, options.credentials).status();
}

absl::StatusOr<std::unique_ptr<Registration>> Registration::Start(
    const RegistrationOptions& options, absl::string_view listen, Member self, absl::Duration ttl,
    std::function<Load()> load) {
  absl::StatusOr<EtcdAddress> address = ParseEtcdAddress(options.cluster);
  if (!address.ok()) return address.status();
  absl::StatusOr<std::string> advertised =
      AddressToAdvertise(options, listen, address->endpoints.front());
  if (!advertised.ok()) return advertised.status();
  self.server = *std::move(advertised);
  self.labels = options.labels;
  absl::StatusOr<std::unique_ptr<EtcdClient>> etcd =
      EtcdClient::Make(*address, options.credentials);
  if (!etcd.ok()) return etcd.status();
  std::unique_ptr<Registration> made(
      new Registration(address->name, *std::move(etcd), std::move(self), ttl, std::move(load)));
  Registration* const raw = made.get();
  absl::Status status = transport::StartThread(&raw->thread_, [raw] {
    raw->Run();
    raw->ended_.Notify();
  });
  if (!status.ok()) raw->ended_.Notify();
  if (!status.ok()) return status;
  return made;
}

Registration::Registration(std::string name, std::unique_ptr<EtcdClient> etcd, Member self,
                           absl::Duration ttl, std::function<Load()> load)
    : name_(std::move(name)),
      etcd_(std::move(etcd)),
      self_(std::move(self)),
      ttl_(ttl),
      load_(std::move(load)) {}

Registration::~Registration() {
  Leave();
  if (!ended_.WaitForNotificationWithTimeout(kLeaveLimit)) etcd_->Stop();
  if (thread_.joinable()) thread_.join();
}

void Registration::Leave() {
  absl::MutexLock lock(&mutex_);
  leaving_ = true;
}

void Registration::Run() {
  const absl::Duration period = std::min(kPeriod, ttl_ / kStepsPerTtl);
  while (true) {
    const absl::Status status = Step();
    if (!status.ok() && !std::exchange(failing_, true)) {
      LogWarning(absl::StrCat(
          "cluster ", name_, ": ", status.message(),
          "; clients that are connected stay so, and new ones do not find this server"));
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&leaving_), period)) break;
  }
  if (lease_ == 0) return;
  absl::Status status = etcd_->RevokeLease(lease_);
  if (status.ok()) return LogInfo(absl::StrCat("cluster ", name_, ": left"));
  LogWarning(absl::StrCat("cluster ", name_, ": ", status.message(),
                          "; the entry of this server goes by itself in ",
                          absl::FormatDuration(ttl_)));
}

absl::Status Registration::Step() {
  const std::string incarnation = FormatIncarnation(self_.incarnation);
  if (lease_ != 0 && absl::FromChrono(Clock::now() - kept_alive_) >= ttl_ / kStepsPerTtl) {
    const absl::StatusOr<bool> kept = etcd_->KeepAlive(lease_);
    if (!kept.ok()) return kept.status();
    if (!*kept) {
      LogWarning(absl::StrCat("cluster ", name_, ": the entry of this server has expired"));
      lease_ = 0;
    }
    kept_alive_ = Clock::now();
  }
  if (lease_ == 0) {
    absl::StatusOr<int64_t> lease = etcd_->GrantLease(ttl_);
    if (!lease.ok()) return lease.status();
    absl::Status status =
        etcd_->Put(absl::StrCat(MembersPrefix(name_), incarnation), ToJson(self_), *lease);
    if (!status.ok()) return status;
    lease_ = *lease;
    kept_alive_ = Clock::now();
    published_.reset();
    failing_ = false;
    LogInfo(absl::StrCat("cluster ", name_, ": registered as ", self_.server));
  }
  const Load load = load_();
  if (!(published_ == load)) {
    absl::Status status =
        etcd_->Put(absl::StrCat(LoadsPrefix(name_), incarnation), ToJson(load), lease_);
    if (!status.ok()) return status;
    published_ = load;
  }
  if (std::exchange(failing_, false))
    LogInfo(absl::StrCat("cluster ", name_, ": etcd answers again"));
  return absl::OkStatus();
}

}  // namespace invoker::cluster
