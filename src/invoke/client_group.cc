#include "src/invoke/client_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "src/invoke/open_sessions.h"
#include "src/invoke/worker_contact.h"

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
  std::vector<std::thread> threads;
  for (size_t i = 1; i < servers; ++i) threads.emplace_back([&, i] { results[i] = make(i); });
  results[0] = make(0);
  for (std::thread& thread : threads) thread.join();
  std::vector<Result> all;
  for (absl::StatusOr<Result>& result : results) {
    if (!result.ok()) return result.status();
    all.push_back(*std::move(result));
  }
  return all;
}

using Clients = std::vector<std::unique_ptr<Client>>;

absl::StatusOr<Clients> ConnectShared(const std::string& server, const ClientOptions& options,
                                      size_t sessions) {
  absl::StatusOr<std::shared_ptr<const WorkerContact>> contact =
      WorkerContact::Find(server, options);
  if (!contact.ok()) return contact.status();
  if (absl::Status status = (*contact)->Usable(); !status.ok()) return status;
  if (sessions == 0) sessions = (*contact)->info().executors;
  absl::StatusOr<std::shared_ptr<HeldLease>> lease =
      HeldLease::Acquire(*std::move(contact), bootstrap::LeaseTerms(), options.connect_timeout);
  if (!lease.ok()) return lease.status();
  return OpenSessions(*lease, sessions, options);
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

using MaybeLease = std::unique_ptr<Lease>;

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
  const absl::Time until = absl::Now() + options.wait;
  std::vector<MaybeLease> leases(servers.size());
  for (const size_t i : order) {
    LeaseOptions mine = options;
    mine.executors = shares[i];
    mine.wait = std::max(until - absl::Now(), absl::ZeroDuration());
    absl::StatusOr<MaybeLease> lease = Lease::Acquire(servers[i], mine);
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

struct PendingCall {
  std::shared_ptr<ExecutorLoads> loads;
  CallDone done;
};

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
  return Of(std::move(clients), {});
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

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Of(
    std::vector<std::unique_ptr<Client>> owned, std::vector<std::unique_ptr<Lease>> leases) {
  std::vector<Client*> clients;
  for (const std::unique_ptr<Client>& client : owned) clients.push_back(client.get());
  for (const std::unique_ptr<Lease>& lease : leases) {
    for (size_t i = 0; i < lease->size(); ++i) clients.push_back(&lease->executor(i));
  }
  if (clients.empty()) return absl::InvalidArgumentError("a group has one executor at least");
  return std::unique_ptr<ClientGroup>(
      new ClientGroup(std::move(owned), std::move(leases), std::move(clients)));
}

ClientGroup::ClientGroup(std::vector<std::unique_ptr<Client>> owned,
                         std::vector<std::unique_ptr<Lease>> leases, std::vector<Client*> clients)
    : owned_(std::move(owned)),
      leases_(std::move(leases)),
      clients_(std::move(clients)),
      loads_(std::make_shared<ExecutorLoads>(clients_.size())) {}

ClientGroup::~ClientGroup() = default;

absl::StatusOr<GroupFunction> ClientGroup::Function(absl::string_view name) const {
  std::vector<RemoteFunction> functions;
  for (size_t i = 0; i < clients_.size(); ++i) {
    absl::StatusOr<RemoteFunction> function = clients_[i]->Function(name);
    if (!function.ok()) {
      return absl::Status(function.status().code(),
                          absl::StrCat("executor ", i, " of ", clients_.size(), ", at ",
                                       clients_[i]->server(), ": ", function.status().message()));
    }
    functions.push_back(*std::move(function));
  }
  return GroupFunction(std::move(functions));
}

absl::StatusOr<Response> ClientGroup::Invoke(const GroupFunction& function, Bytes input,
                                             const CallOptions& options) {
  while (true) {
    const std::optional<size_t> i = loads_->Begin();
    if (!i.has_value()) return loads_->status();
    absl::StatusOr<Response> response =
        clients_[*i]->Invoke(function.functions_[*i], input, options);
    loads_->End(*i);
    // One that was cancelled by its caller shows nothing.
    if (response.ok() || !ShowsLostExecutor(response.status()) ||
        (absl::IsCancelled(response.status()) && clients_[*i]->status().ok())) {
      return response;
    }
    loads_->Lose(*i, response.status());
    if (GetCallFate(response.status()) != CallFate::kNotSent) return response;
  }
}

absl::StatusOr<Response> ClientGroup::Invoke(const GroupFunction& function, absl::string_view input,
                                             const CallOptions& options) {
  return Invoke(function, Bytes(reinterpret_cast<const std::byte*>(input.data()), input.size()),
                options);
}

void ClientGroup::InvokeAsync(const GroupFunction& function, Bytes input,
                              const CallOptions& options, CallDone done) {
  const auto pending = std::make_shared<PendingCall>(PendingCall{loads_, std::move(done)});
  while (true) {
    const std::optional<size_t> i = loads_->Begin();
    if (!i.has_value()) return pending->done(loads_->status());
    CallDone counted = [pending, executor = *i](absl::StatusOr<Response> response) {
      pending->loads->End(executor);
      if (!response.ok() && ShowsLostExecutor(response.status())) {
        pending->loads->Lose(executor, response.status());
      }
      pending->done(std::move(response));
    };
    const absl::Status status =
        clients_[*i]->StartCall(function.functions_[*i], input, options, counted);
    if (status.ok()) return;
    loads_->End(*i);
    if (!ShowsLostExecutor(status) || (absl::IsCancelled(status) && clients_[*i]->status().ok())) {
      return pending->done(status);
    }
    loads_->Lose(*i, status);
  }
}

MapRun ClientGroup::StartMap(const GroupFunction& function, MapSource source, MapOptions options,
                             uint64_t total) {
  std::vector<MapRun::Executor> executors;
  for (size_t i = 0; i < clients_.size(); ++i) {
    executors.push_back({clients_[i], function.functions_[i]});
  }
  return MapRun(std::move(executors), loads_, std::move(source), total, std::move(options));
}

std::vector<absl::StatusOr<std::string>> ClientGroup::Map(const GroupFunction& function,
                                                          absl::Span<const std::string> inputs,
                                                          MapOptions options) {
  std::vector<absl::StatusOr<std::string>> results(
      inputs.size(), WithFate(absl::CancelledError("not called, since another item failed before"),
                              CallFate::kNotSent));
  // They are put where they belong as they come.
  options.ordered = false;
  size_t next = 0;
  const auto source = [&]() -> std::optional<absl::StatusOr<MapInput>> {
    if (next == inputs.size()) return std::nullopt;
    const std::string& input = inputs[next++];
    return MapInput(Bytes(reinterpret_cast<const std::byte*>(input.data()), input.size()));
  };
  MapRun run = StartMap(function, source, std::move(options), inputs.size());
  while (std::optional<MapResult> result = run.Next()) {
    if (result->response.ok()) {
      results[result->index] = std::string(result->response->text());
    } else {
      results[result->index] = result->response.status();
    }
  }
  return results;
}

std::vector<absl::StatusOr<bootstrap::LeaseEnd>> ClientGroup::Release() {
  std::vector<absl::StatusOr<bootstrap::LeaseEnd>> ends;
  for (const std::unique_ptr<Lease>& lease : leases_) {
    absl::StatusOr<bootstrap::LeaseEnd> end = lease->Release();
    if (!end.ok()) {
      end = absl::Status(end.status().code(),
                         absl::StrCat(lease->server(), ": ", end.status().message()));
    }
    ends.push_back(std::move(end));
  }
  return ends;
}

}  // namespace invoker
