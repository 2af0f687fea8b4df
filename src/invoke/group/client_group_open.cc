// ClientGroup: opening one, on several servers at the same time.

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "invoker/client_group.h"
#include "src/base/start_thread.h"
#include "src/invoke/client/open_sessions.h"
#include "src/invoke/connect/worker_contact.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {
namespace {

absl::StatusOr<std::vector<std::string>> SplitServers(absl::string_view servers) {
  std::vector<std::string> list;
  for (absl::string_view server : absl::StrSplit(servers, ',')) {
    server = absl::StripAsciiWhitespace(server);
    if (server.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", servers, "\" is no list of servers; write HOST:PORT,HOST:PORT, without gaps"));
    }
    if (std::find(list.begin(), list.end(), server) != list.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", servers, "\" has \"", server, "\" twice"));
    }
    list.emplace_back(server);
  }
  return list;
}

// Makes something of each server, of all at the same time. The first error, if there is any.
template <typename Result, typename Make>
absl::StatusOr<std::vector<Result>> OfEach(size_t servers, const Make& make) {
  std::vector<absl::StatusOr<Result>> results(servers);
  std::vector<std::thread> threads(servers);
  for (size_t i = 1; i < servers; ++i) {
    transport::StartThread(&threads[i], [&, i] { results[i] = make(i); }).IgnoreError();
  }
  // What has no thread is made on this one.
  for (size_t i = 0; i < servers; ++i) {
    if (!threads[i].joinable()) results[i] = make(i);
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  std::vector<Result> all;
  for (absl::StatusOr<Result>& result : results) {
    if (!result.ok()) return result.status();
    all.push_back(*std::move(result));
  }
  return all;
}

// The most that a worker can have that is well.
constexpr size_t kMostExecutors = 1024;

using Clients = std::vector<std::shared_ptr<Client>>;

absl::StatusOr<Clients> ConnectShared(const std::string& server, const ClientOptions& options,
                                      size_t sessions) {
  absl::StatusOr<std::shared_ptr<const WorkerContact>> contact =
      WorkerContact::Find(server, options);
  if (!contact.ok()) return contact.status();
  if (absl::Status status = (*contact)->Usable(); !status.ok()) return status;
  if (sessions == 0) {
    sessions = (*contact)->info().executors;
    if (sessions == 0 || sessions > kMostExecutors) {
      return absl::InternalError(absl::StrCat("the server at ", server, " says that it has ",
                                              sessions, " executors, which none has"));
    }
  }
  LeaseTerms terms;
  terms.peer_timeout = options.peer_timeout;
  absl::StatusOr<std::shared_ptr<ClientLease>> lease =
      ClientLease::Acquire(*std::move(contact), terms, options.connect_timeout);
  if (!lease.ok()) return lease.status();
  absl::StatusOr<std::vector<std::unique_ptr<Client>>> clients =
      OpenSessions(*lease, sessions, options);
  if (!clients.ok()) return clients.status();
  return Clients(std::make_move_iterator(clients->begin()),
                 std::make_move_iterator(clients->end()));
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
  absl::StatusOr<std::vector<std::string>> list = SplitServers(servers);
  if (!list.ok()) return list.status();
  absl::StatusOr<std::vector<Clients>> each = OfEach<Clients>(list->size(), [&](size_t i) {
    ClientOptions mine = options;
    // Not for several threads.
    if (i != 0) mine.times = nullptr;
    return ConnectShared((*list)[i], mine, sessions_each);
  });
  if (!each.ok()) return each.status();
  Clients clients;
  for (Clients& some : *each) {
    std::move(some.begin(), some.end(), std::back_inserter(clients));
  }
  absl::StatusOr<std::unique_ptr<ClientGroup>> group = Of(std::move(clients), {});
  if (!group.ok() || !options.reconnect) return group;
  if (absl::Status status = (*group)->Reconnect(options); !status.ok()) return status;
  return group;
}

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Acquire(absl::string_view servers,
                                                                  const LeaseOptions& options) {
  absl::StatusOr<std::vector<std::string>> list = SplitServers(servers);
  if (!list.ok()) return list.status();
  if (options.executors == 0) {
    return absl::InvalidArgumentError("a group has one executor at least");
  }
  absl::StatusOr<std::vector<uint32_t>> shares = Spread(*list, options);
  if (!shares.ok()) return shares.status();
  absl::StatusOr<std::vector<MaybeLease>> leases =
      options.wait > absl::ZeroDuration() && list->size() > 1
          ? AcquireInOrder(*list, *shares, options)
          : AcquireAtOnce(*list, *shares, options);
  if (!leases.ok()) return leases.status();
  leases->erase(std::remove(leases->begin(), leases->end(), nullptr), leases->end());
  return Of({}, *std::move(leases));
}

}  // namespace invoker
