#include "src/invoke/group/leases/acquire_leases.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/random.h"
#include "src/bootstrap/client/client.h"
#include "src/invoke/group/each_of.h"
#include "src/invoke/group/leases/lease_placement.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {
namespace {

using Leases = std::vector<std::shared_ptr<Lease>>;
using Members = std::vector<cluster::Member>;
using Rooms = std::vector<LeaseRoom>;

// LeaseOptions::spread.
constexpr char kServers[] = "server";

// How long one stays in the same line while there may be better ones.
constexpr absl::Duration kTurn = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Seconds(1);

// For each step of taking a lease, while others can be asked. A server that is asked for more than
// so many executors gets as many times as long for them: it may have to start them.
constexpr absl::Duration kQuickly = absl::Milliseconds(500);
constexpr uint32_t kQuicklyStarted = 8;
// Where all servers are silent, they get so many times as long, and so on up to the caller's limit:
// one that is merely slow does not wait for one that has gone.
constexpr int kPatience = 4;

bool HasLabels(const cluster::Member& member, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&member](const auto& label) {
    const auto found = member.labels.find(label.first);
    return found != member.labels.end() && found->second == label.second;
  });
}

absl::StatusOr<Members> Suitable(const Members& members, const LeaseOptions& options) {
  Members suitable;
  for (const cluster::Member& member : members) {
    const bool fits =
        member.incarnation == 0 || options.kind != ExecutorKind::kPython || member.python;
    if (fits && HasLabels(member, options.labels)) suitable.push_back(member);
  }
  if (!suitable.empty()) return suitable;
  return absl::NotFoundError(absl::StrCat(
      "none of ", members.size(), " servers ",
      options.kind == ExecutorKind::kPython ? "has executors for Python functions and " : "has ",
      options.labels.empty()
          ? "room for leases"
          : absl::StrCat("the labels ",
                         absl::StrJoin(options.labels, ",", absl::PairFormatter("=")))));
}

// How many executors there is memory for.
int64_t Limited(uint64_t cores, uint64_t memory_bytes, const LeaseOptions& options) {
  if (options.memory_bytes == 0) return static_cast<int64_t>(cores);
  return static_cast<int64_t>(std::min(cores, memory_bytes / options.memory_bytes));
}

constexpr char kNoPython[] = "no server has executors for Python functions";

// Asks all servers at the same time, since each one that is silent costs the limit.
std::vector<absl::StatusOr<bootstrap::Capacity>> AskCapacities(const Members& members,
                                                               absl::Duration limit,
                                                               const LeaseOptions& options) {
  const absl::Duration allowed = std::min(options.client.connect_timeout, limit);
  return EachOf<bootstrap::Capacity>(members.size(),
                                     [&](size_t i) -> absl::StatusOr<bootstrap::Capacity> {
                                       auto client = bootstrap::BootstrapClient::Connect(
                                           members[i].server, allowed, options.client.credentials);
                                       if (!client.ok()) return client.status();
                                       return (*client)->worker_info().capacity;
                                     });
}

// What each server says of itself. One that does not answer is not open; if none does, why.
absl::StatusOr<Rooms> AskServers(const Members& members, absl::Duration limit,
                                 const LeaseOptions& options) {
  const auto capacities = AskCapacities(members, limit, options);
  Rooms rooms(members.size());
  absl::Status failure;
  bool any = false;
  for (size_t i = 0; i < members.size(); ++i) {
    const bool answers = capacities[i].ok();
    failure.Update(capacities[i].status());
    rooms[i].open = answers && (options.kind != ExecutorKind::kPython || capacities[i]->python);
    if (answers && !rooms[i].open) failure.Update(absl::FailedPreconditionError(kNoPython));
    any |= rooms[i].open;
    if (!rooms[i].open) continue;
    const bootstrap::Capacity& capacity = *capacities[i];
    rooms[i].free = Limited(capacity.free_cores, capacity.free_memory_bytes, options);
    rooms[i].cores = Limited(capacity.cores, capacity.memory_bytes, options);
  }
  if (!any) return failure;
  return rooms;
}

// What each has published.
Rooms RoomsFrom(const Members& members, const std::map<uint64_t, cluster::Load>& loads,
                const LeaseOptions& options) {
  Rooms rooms;
  for (const cluster::Member& member : members) {
    const int64_t cores = Limited(member.cores, member.memory_bytes, options);
    const auto load = loads.find(member.incarnation);
    const int64_t free = load == loads.end() ? cores
                                             : Limited(load->second.free_cores,
                                                       load->second.free_memory_bytes, options);
    rooms.push_back({free, cores, member.cores > 0});
  }
  return rooms;
}

// By the servers, or by the values of a label; all the same for neither.
void SetDomains(const Members& members, const std::string& spread, Rooms* rooms) {
  if (spread.empty()) return;
  std::map<std::string, size_t> domains;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto label = members[i].labels.find(spread);
    const std::string value = label == members[i].labels.end() ? "" : label->second;
    const std::string& domain = spread == kServers ? members[i].server : value;
    (*rooms)[i].domain = domains.emplace(domain, domains.size()).first->second;
  }
}

size_t PickRandom(size_t count) { return transport::DrawRandom().value_or(0) % count; }

// Whether a server that refuses like this may be passed over. Others of the refusals are mistakes
// of the caller's, which other servers would not forgive either.
bool MayGoElsewhere(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsFailedPrecondition(status);
}

uint32_t LeastOf(const LeaseOptions& options) {
  return options.at_least != 0 ? options.at_least : options.executors;
}

// What has been got so far.
struct Granted {
  void Add(std::shared_ptr<Lease> lease) {
    executors += static_cast<uint32_t>(lease->size());
    leases.push_back(std::move(lease));
  }
  // The leases, or why there are too few.
  absl::StatusOr<Leases> Enough(const LeaseOptions& options) && {
    const uint32_t least = LeastOf(options);
    if (executors >= least) return std::move(leases);
    if (!refusal.ok()) return refusal;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the servers have ", executors, " executors in all, and at least ", least, " are wanted"));
  }

  Leases leases;
  uint32_t executors = 0;
  absl::Status refusal;  // the first
};

// One after the other, in an order that is the same for every client: of two that wait, none holds
// what the other one waits for while it waits for what the other one holds.
//
// More than a server has is not asked of it. If there are too few executors altogether, the rest is
// waited for at the last one, so that it can be seen there that more are wanted.
absl::StatusOr<Leases> AcquireInOrder(const Members& members, const Rooms& rooms,
                                      const std::vector<uint32_t>& shares,
                                      const LeaseOptions& options) {
  std::vector<size_t> order;
  for (size_t i = 0; i < members.size(); ++i) {
    if (shares[i] != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&members](size_t a, size_t b) { return members[a].server < members[b].server; });
  const CallDeadline until(options.wait);
  Granted granted;
  const auto ask = [&](size_t i, uint32_t executors) {
    LeaseOptions mine = options;
    mine.executors = executors;
    mine.wait = std::max(until.left(), absl::ZeroDuration());
    absl::StatusOr<std::unique_ptr<Lease>> lease = Lease::Acquire(members[i].server, mine);
    if (lease.ok()) granted.Add(*std::move(lease));
    granted.refusal.Update(lease.status());
    return lease.ok() || MayGoElsewhere(lease.status());
  };
  const auto most = [&rooms](size_t i, uint32_t executors) {
    return rooms[i].cores > 0 ? std::min(executors, static_cast<uint32_t>(rooms[i].cores))
                              : executors;
  };
  for (const size_t i : order) {
    if (!ask(i, most(i, shares[i]))) return granted.refusal;
  }
  if (granted.refusal.ok() && granted.executors < options.executors && !order.empty()) {
    const size_t last = order.back();
    if (!ask(last, most(last, options.executors - granted.executors))) return granted.refusal;
  }
  return std::move(granted).Enough(options);
}

bool IsSilence(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// Returns the numbers of the servers that do not answer.
std::vector<size_t> FindSilent(const Members& members, absl::Duration limit,
                               const LeaseOptions& options) {
  const auto answers = AskCapacities(members, limit, options);
  std::vector<size_t> silent;
  for (size_t i = 0; i < members.size(); ++i) {
    if (IsSilence(answers[i].status())) silent.push_back(i);
  }
  return silent;
}

void Close(const std::vector<size_t>& servers, Rooms* rooms) {
  for (const size_t i : servers) (*rooms)[i].open = false;
}

// Returns how many cores the open rooms have.
int64_t CoresIn(const Rooms& rooms) {
  int64_t cores = 0;
  for (const LeaseRoom& room : rooms) cores += room.open ? room.cores : 0;
  return cores;
}

// In rounds: what some servers refuse is asked of the others, while they have something free. Each
// step has `limit`, and what the options allow for it at most. Where one server is silent, all are
// looked at, and `silent` is set.
absl::StatusOr<Leases> AcquireAtOnce(const Members& members, Rooms rooms, const PickBelow& pick,
                                     absl::Duration limit, const LeaseOptions& options,
                                     std::vector<size_t>* silent) {
  Granted granted;
  bool silence = false;
  silent->clear();
  while (granted.executors < options.executors) {
    const std::vector<uint32_t> shares =
        PlaceExecutors(rooms, options.executors - granted.executors, pick);
    std::vector<size_t> asked;
    std::vector<uint32_t> wanted;
    const bool others_refused = !granted.refusal.ok();
    for (size_t i = 0; i < members.size(); ++i) {
      // After a refusal, only where something should be free; what was published may be old.
      const bool may_give = !others_refused || rooms[i].free > 0 || pick != nullptr;
      if (shares[i] == 0 || !may_give) continue;
      // A server refuses what it never has. Where fewer will do, or where it would stand in for
      // others, it is asked for what it has besides what it has granted.
      const bool fewer_will_do = options.at_least != 0 && rooms[i].cores > 0;
      const int64_t most = fewer_will_do || others_refused ? rooms[i].cores : shares[i];
      if (most <= 0) continue;
      asked.push_back(i);
      wanted.push_back(static_cast<uint32_t>(std::min<int64_t>(shares[i], most)));
    }
    if (asked.empty()) break;
    auto given = EachOf<std::shared_ptr<Lease>>(
        asked.size(), [&](size_t i) -> absl::StatusOr<std::shared_ptr<Lease>> {
          LeaseOptions mine = options;
          mine.executors = wanted[i];
          const uint32_t times = (wanted[i] + kQuicklyStarted - 1) / kQuicklyStarted;
          mine.client.connect_timeout =
              std::min(options.client.connect_timeout, limit * std::max(times, 1u));
          // A packet of a new connection that is lost is sent again after a second.
          mine.client.probe_timeout = std::min(options.client.probe_timeout, limit);
          // Not for several threads.
          if (i != 0) mine.client.times = nullptr;
          return Lease::Acquire(members[asked[i]].server, mine);
        });
    const bool silence_before = silence;
    for (size_t i = 0; i < asked.size(); ++i) {
      LeaseRoom& room = rooms[asked[i]];
      if (given[i].ok()) {
        room.free -= wanted[i];
        room.cores -= wanted[i];
        room.open = options.at_least == 0 || room.cores > 0;
        granted.Add(*std::move(given[i]));
        continue;
      }
      if (!MayGoElsewhere(given[i].status())) return given[i].status();
      granted.refusal.Update(given[i].status());
      room.open = false;
      silence |= IsSilence(given[i].status());
    }
    // Where one is silent, a cut may have made others silent, too.
    if (silence && !silence_before) {
      *silent = FindSilent(members, limit, options);
      Close(*silent, &rooms);
    }
  }
  return std::move(granted).Enough(options);
}

// `loads`: nullptr if nobody publishes them.
absl::StatusOr<Leases> AcquireNow(const Members& all,
                                  const std::map<uint64_t, cluster::Load>* loads,
                                  const LeaseOptions& options) {
  const absl::StatusOr<Members> members = Suitable(all, options);
  if (!members.ok()) return members.status();
  Rooms rooms(members->size());
  if (loads != nullptr) {
    rooms = RoomsFrom(*members, *loads, options);
  } else if (members->size() > 1) {
    absl::StatusOr<Rooms> asked = AskServers(*members, absl::InfiniteDuration(), options);
    if (!asked.ok()) return asked.status();
    rooms = *std::move(asked);
  }
  SetDomains(*members, options.spread, &rooms);
  const PickBelow pick = loads != nullptr ? PickBelow(&PickRandom) : nullptr;
  if (options.wait > absl::ZeroDuration() && (loads != nullptr || members->size() > 1)) {
    return AcquireInOrder(*members, rooms, PlaceExecutors(rooms, options.executors, pick), options);
  }
  std::vector<size_t> silent;
  if (loads == nullptr || members->size() == 1) {
    return AcquireAtOnce(*members, std::move(rooms), pick, absl::InfiniteDuration(), options,
                         &silent);
  }
  // What a cluster knows is a moment old: others are not to wait for a server that has just
  // vanished, and where the members refuse, they are asked what they have.
  absl::Duration limit = kQuickly;
  absl::StatusOr<Leases> leases = AcquireAtOnce(*members, rooms, pick, limit, options, &silent);
  while (IsSilence(leases.status()) && limit < options.client.connect_timeout) {
    limit *= kPatience;
    // Those that answer, but grant no lease in so short a time, come before those that do not, if
    // they have enough.
    Rooms again = rooms;
    Close(silent, &again);
    if (CoresIn(again) < LeastOf(options)) again = rooms;
    leases = AcquireAtOnce(*members, again, pick, limit, options, &silent);
  }
  if (!absl::IsResourceExhausted(leases.status())) return leases;
  absl::StatusOr<Rooms> asked = AskServers(*members, limit, options);
  if (!asked.ok()) return leases;
  SetDomains(*members, options.spread, &*asked);
  return AcquireAtOnce(*members, *std::move(asked), nullptr, absl::InfiniteDuration(), options,
                       &silent);
}

}  // namespace

absl::StatusOr<Leases> AcquireLeases(cluster::MemberWatch* watch, const LeaseOptions& options) {
  const CallDeadline until(options.wait);
  LeaseOptions turn = options;
  while (true) {
    uint64_t change = 0;
    const Members all = watch->Now(&change);
    const absl::StatusOr<std::map<uint64_t, cluster::Load>> loads = watch->Loads();
    if (loads.ok()) turn.wait = std::clamp(until.left(), absl::ZeroDuration(), kTurn);
    absl::StatusOr<Leases> leases = AcquireNow(all, loads.ok() ? &*loads : nullptr, turn);
    const bool may_come = MayGoElsewhere(leases.status()) || absl::IsNotFound(leases.status());
    if (leases.ok() || !loads.ok() || !may_come || until.left() <= absl::ZeroDuration()) {
      return leases;
    }
    watch->AwaitChange(change, std::min(until.left(), kPause));
  }
}

}  // namespace invoker
