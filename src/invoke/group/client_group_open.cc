// ClientGroup: opening one, on several servers at the same time.

#include <utility>

#include "absl/strings/str_cat.h"
#include "invoker/client_group.h"
#include "src/cluster/member_watch.h"
#include "src/invoke/group/connect_member.h"
#include "src/invoke/group/each_of.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/group/leases/acquire_leases.h"
#include "src/invoke/group/leases/group_leases.h"
#include "src/invoke/group/leases/lease_replacer.h"
#include "src/invoke/group/member_connector.h"

namespace invoker {
namespace {

using Clients = std::vector<std::shared_ptr<Client>>;
using Members = std::vector<cluster::Member>;

// Executors of a group that follows its servers.
constexpr size_t kMostExecutors = 4096;

// For a piece of code, to a lease that comes in the place of another one.
constexpr absl::Duration kUploadLimit = absl::Minutes(1);

absl::StatusOr<Members> AwaitMembers(absl::string_view servers, const ClientOptions& options,
                                     cluster::MemberWatch* watch) {
  absl::StatusOr<Members> members = watch->AwaitMembers(options.connect_timeout);
  if (members.ok()) return members;
  return absl::Status(members.status().code(),
                      absl::StrCat(servers, ": ", members.status().message()));
}

// Whether a group may start without a server that fails like this, and connect to it later. All
// servers of a list can be expected to be right.
bool MayComeLater(const absl::Status& status, bool listed) {
  return !listed || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Connect(absl::string_view servers,
                                                                  const ClientOptions& options,
                                                                  size_t sessions_each) {
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch =
      cluster::MemberWatch::Start(servers, options.cluster);
  if (!watch.ok()) return watch.status();
  const absl::StatusOr<Members> members = AwaitMembers(servers, options, watch->get());
  if (!members.ok()) return members.status();
  std::vector<absl::StatusOr<Clients>> each = EachOf<Clients>(members->size(), [&](size_t i) {
    ClientOptions mine = options;
    // Not for several threads.
    if (i != 0) mine.times = nullptr;
    return ConnectMember((*members)[i], mine, sessions_each);
  });
  const bool listed = members->front().incarnation == 0;
  absl::Status first_failure;
  Clients clients;
  std::vector<std::vector<size_t>> executors(members->size());
  for (size_t i = 0; i < each.size(); ++i) {
    const absl::Status& status = each[i].status();
    first_failure.Update(status);
    if (!status.ok() && !(options.reconnect && MayComeLater(status, listed))) return status;
    if (!status.ok()) continue;
    for (std::shared_ptr<Client>& client : *each[i]) {
      executors[i].push_back(clients.size());
      clients.push_back(std::move(client));
    }
  }
  if (clients.empty()) return first_failure;
  if (!options.reconnect) return Of(std::move(clients), {});

  absl::StatusOr<std::unique_ptr<ClientGroup>> group = Make(std::move(clients), {}, kMostExecutors);
  if (!group.ok()) return group;
  ClientGroup* const raw = group->get();
  MemberConnector::Places places;
  places.replace = [raw](size_t executor, std::shared_ptr<Client> client) {
    return raw->Replace(executor, std::move(client));
  };
  places.add = [raw](std::shared_ptr<Client> client) { return raw->Add(std::move(client)); };
  auto connector = std::make_unique<MemberConnector>(options, sessions_each, std::move(places));
  for (size_t i = 0; i < members->size(); ++i) connector->Adopt((*members)[i], executors[i]);
  absl::Status status = raw->Follow(*std::move(watch), std::move(connector));
  if (!status.ok()) return status;
  return group;
}

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Acquire(absl::string_view servers,
                                                                  const LeaseOptions& options) {
  if (options.executors == 0) {
    return absl::InvalidArgumentError("a group has one executor at least");
  }
  if (options.at_least > options.executors) {
    return absl::InvalidArgumentError(absl::StrCat("at least ", options.at_least,
                                                   " executors are asked for, and at most ",
                                                   options.executors));
  }
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch =
      cluster::MemberWatch::Start(servers, options.client.cluster);
  if (!watch.ok()) return watch.status();
  const absl::Status there = AwaitMembers(servers, options.client, watch->get()).status();
  if (!there.ok()) return there;
  absl::StatusOr<std::vector<std::shared_ptr<Lease>>> leases = AcquireLeases(watch->get(), options);
  if (!leases.ok()) return leases.status();
  absl::StatusOr<std::unique_ptr<ClientGroup>> group = Of({}, *std::move(leases));
  if (!group.ok() || !options.replace) return group;
  absl::Status status = (*group)->ReplaceLost(*std::move(watch), options);
  if (!status.ok()) return status;
  return group;
}

// What is lost from now on, or has been already, is replaced.
absl::Status ClientGroup::ReplaceLost(std::unique_ptr<cluster::MemberWatch> watch,
                                      const LeaseOptions& options) {
  watch_ = std::move(watch);
  LeaseReplacer::Places places;
  places.acquire = [this, options](uint32_t executors, absl::Duration ttl) {
    LeaseOptions mine = options;
    mine.executors = executors;
    mine.at_least = 1;
    mine.ttl = ttl;
    mine.wait = absl::ZeroDuration();
    // They were the caller's, for as long as it waited.
    mine.on_queued = nullptr;
    mine.client.times = nullptr;
    return AcquireLeases(watch_.get(), mine);
  };
  places.bring = [this](const std::vector<std::shared_ptr<Lease>>& lost,
                        const std::shared_ptr<Lease>& added) {
    return leases_->Replace(lost, added, kUploadLimit);
  };
  places.drop = [this](const std::shared_ptr<Lease>& added) { leases_->Remove(added); };
  places.replace = [this](size_t executor, std::shared_ptr<Client> client) {
    return Replace(executor, std::move(client));
  };
  replacer_ = std::make_unique<LeaseReplacer>(leases_->List(), options.ttl, std::move(places));
  if (absl::Status status = replacer_->Start(); !status.ok()) return status;
  loads_->set_on_lost([raw = replacer_.get()](size_t executor) { raw->Lost(executor); });
  for (size_t i = 0; i < size(); ++i) Watch(i);
  return absl::OkStatus();
}

}  // namespace invoker
