// ClientGroup: opening one, on several servers at the same time.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invoker/client_group.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/client/client.h"
#include "src/cluster/member_watch.h"
#include "src/invoke/group/connect_member.h"
#include "src/invoke/group/member_connector.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {
namespace {

using Clients = std::vector<std::shared_ptr<Client>>;
using Members = std::vector<cluster::Member>;

// Executors of a group that follows its servers.
constexpr size_t kMostExecutors = 4096;

constexpr size_t kMostThreads = 64;

// make(i) for each server, of many at the same time.
template <typename Result, typename Make>
std::vector<absl::StatusOr<Result>> EachOf(size_t servers, const Make& make) {
  std::vector<absl::StatusOr<Result>> results(servers);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < servers; i = next++) results[i] = make(i);
  };
  std::vector<std::thread> threads(std::min(servers, kMostThreads));
  for (size_t i = 1; i < threads.size(); ++i) {
    // Without it there are fewer.
    transport::StartThread(&threads[i], work).IgnoreError();
  }
  work();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return results;
}

// The first error, if there is any.
template <typename Result, typename Make>
absl::StatusOr<std::vector<Result>> OfEach(size_t servers, const Make& make) {
  std::vector<Result> all;
  for (absl::StatusOr<Result>& result : EachOf<Result>(servers, make)) {
    if (!result.ok()) return result.status();
    all.push_back(*std::move(result));
  }
  return all;
}

void LogToStandardError(absl::string_view message) {
  const std::string line = absl::StrCat("invoker: ", message, "\n");
  fwrite(line.data(), 1, line.size(), stderr);
}

absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> StartWatch(absl::string_view servers,
                                                                 const ClientOptions& options) {
  return cluster::MemberWatch::Start(servers, options.cluster,
                                     options.log ? options.log : &LogToStandardError);
}

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

// How many executors to lease of each server: each one where the most cores are free, or, once none
// are, where there are the most at all, so that the refusal comes from a server that has some.
absl::StatusOr<std::vector<uint32_t>> Spread(const std::vector<std::string>& servers,
                                             const LeaseOptions& options) {
  std::vector<uint32_t> shares(servers.size(), 0);
  if (servers.size() == 1) {
    shares[0] = options.executors;
    return shares;
  }
  absl::StatusOr<std::vector<bootstrap::Capacity>> capacities = OfEach<bootstrap::Capacity>(
      servers.size(), [&](size_t i) -> absl::StatusOr<bootstrap::Capacity> {
        auto client = bootstrap::BootstrapClient::Connect(
            servers[i], options.client.connect_timeout, options.client.credentials);
        if (!client.ok()) return client.status();
        return (*client)->worker_info().capacity;
      });
  if (!capacities.ok()) return capacities.status();
  for (uint32_t given = 0; given < options.executors; ++given) {
    const auto room = [&](size_t i) {
      const bootstrap::Capacity& capacity = (*capacities)[i];
      return std::make_pair(int64_t{capacity.free_cores} - shares[i],
                            int64_t{capacity.cores} - shares[i]);
    };
    size_t best = 0;
    for (size_t i = 1; i < servers.size(); ++i) {
      // A core that is in use now counts only where none is free.
      const auto [free, cores] = room(i);
      const auto [best_free, best_cores] = room(best);
      const bool better = best_free > 0 || free > 0 ? free > best_free : cores > best_cores;
      if (better) best = i;
    }
    ++shares[best];
  }
  return shares;
}

using MaybeLease = std::shared_ptr<Lease>;

// One after the other, in an order that is the same for every client: of two that wait, none holds
// what the other one waits for while it waits for what the other one holds.
absl::StatusOr<std::vector<MaybeLease>> AcquireInOrder(const std::vector<std::string>& servers,
                                                       const std::vector<uint32_t>& shares,
                                                       const LeaseOptions& options) {
  std::vector<size_t> order;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (shares[i] != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&servers](size_t a, size_t b) { return servers[a] < servers[b]; });
  const CallDeadline until(options.wait);
  std::vector<MaybeLease> leases(servers.size());
  for (const size_t i : order) {
    LeaseOptions mine = options;
    mine.executors = shares[i];
    mine.wait = std::max(until.left(), absl::ZeroDuration());
    absl::StatusOr<std::unique_ptr<Lease>> lease = Lease::Acquire(servers[i], mine);
    if (!lease.ok()) return lease.status();
    leases[i] = *std::move(lease);
  }
  return leases;
}

absl::StatusOr<std::vector<MaybeLease>> AcquireAtOnce(const std::vector<std::string>& servers,
                                                      const std::vector<uint32_t>& shares,
                                                      const LeaseOptions& options) {
  return OfEach<MaybeLease>(servers.size(), [&](size_t i) -> absl::StatusOr<MaybeLease> {
    if (shares[i] == 0) return MaybeLease();
    LeaseOptions mine = options;
    mine.executors = shares[i];
    // Not for several threads.
    if (i != 0) mine.client.times = nullptr;
    return Lease::Acquire(servers[i], mine);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Connect(absl::string_view servers,
                                                                  const ClientOptions& options,
                                                                  size_t sessions_each) {
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch = StartWatch(servers, options);
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
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch = StartWatch(servers, options.client);
  if (!watch.ok()) return watch.status();
  const absl::StatusOr<Members> members = AwaitMembers(servers, options.client, watch->get());
  if (!members.ok()) return members.status();
  std::vector<std::string> list;
  for (const cluster::Member& member : *members) list.push_back(member.server);
  absl::StatusOr<std::vector<uint32_t>> shares = Spread(list, options);
  if (!shares.ok()) return shares.status();
  absl::StatusOr<std::vector<MaybeLease>> leases =
      options.wait > absl::ZeroDuration() && list.size() > 1
          ? AcquireInOrder(list, *shares, options)
          : AcquireAtOnce(list, *shares, options);
  if (!leases.ok()) return leases.status();
  leases->erase(std::remove(leases->begin(), leases->end(), nullptr), leases->end());
  return Of({}, *std::move(leases));
}

}  // namespace invoker
