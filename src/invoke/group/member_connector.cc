#include "src/invoke/group/member_connector.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/base/start_thread.h"
#include "src/invoke/group/connect_member.h"

namespace invoker {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// For one step of a try: a thread that ends the group waits for it.
constexpr absl::Duration kLongestStep = absl::Seconds(1);
constexpr size_t kConnectingThreads = 8;

absl::Duration WithJitter(absl::Duration pause) {
  // Three quarters of it to five quarters.
  constexpr uint64_t kSteps = 1024;
  const uint64_t step = transport::DrawRandom().value_or(kSteps / 2) % kSteps;
  return pause * (0.75 + 0.5 * static_cast<double>(step) / kSteps);
}

}  // namespace

MemberConnector::MemberConnector(const ClientOptions& options, size_t sessions, Places places)
    : options_(options),
      sessions_(sessions),
      places_(std::move(places)),
      connecting_(kConnectingThreads) {
  options_.times = nullptr;
  options_.connect_timeout = std::min(options_.connect_timeout, kLongestStep);
  options_.probe_timeout = std::min(options_.probe_timeout, kLongestStep);
}

MemberConnector::~MemberConnector() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

// Each run of a server is a member of its own.
std::string MemberConnector::KeyOf(const cluster::Member& member) {
  return absl::StrCat(member.server, " ", cluster::FormatIncarnation(member.incarnation));
}

void MemberConnector::Adopt(const cluster::Member& member, std::vector<size_t> executors) {
  const std::string key = KeyOf(member);
  for (const size_t executor : executors) owners_[executor] = key;
  if (executors.empty()) {
    TryAfter(kFirstPause, {key, std::nullopt});
  }
  const size_t sessions = executors.size();
  known_[key] = {member, true, false, sessions, std::move(executors)};
}

absl::Status MemberConnector::Start() {
  return transport::StartThread(&thread_, [this] { Run(); });
}

void MemberConnector::Lost(size_t executor) {
  Put([this, executor] { OnLost(executor); });
}

void MemberConnector::SetMembers(std::vector<cluster::Member> members) {
  Put([this, members = std::move(members)]() mutable { OnMembers(std::move(members)); });
}

void MemberConnector::Put(std::function<void()> event) {
  absl::MutexLock lock(&mutex_);
  events_.push_back(std::move(event));
  changed_.SignalAll();
}

bool MemberConnector::stopping() {
  absl::MutexLock lock(&mutex_);
  return stop_;
}

void MemberConnector::Run() {
  while (!stopping()) {
    if (const std::function<void()> event = Next()) event();
    StartDueTries();
  }
}

std::function<void()> MemberConnector::Next() {
  const auto first = std::min_element(tries_.begin(), tries_.end(),
                                      [](const Try& a, const Try& b) { return a.next < b.next; });
  const CallDeadline due = first == tries_.end() ? CallDeadline() : first->next;
  absl::MutexLock lock(&mutex_);
  while (!stop_ && events_.empty() && !due.passed()) {
    changed_.WaitWithTimeout(&mutex_, due.left());
  }
  if (stop_ || events_.empty()) return nullptr;
  std::function<void()> event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void MemberConnector::OnLost(size_t executor) {
  const auto owner = owners_.find(executor);
  if (owner == owners_.end()) return;
  Known& known = known_[owner->second];
  if (known.listed && !known.stale) {
    TryAfter(kFirstPause, {owner->second, executor});
    return;
  }
  known.executors.erase(std::find(known.executors.begin(), known.executors.end(), executor));
  if (known.executors.empty()) known_.erase(owner->second);
  owners_.erase(owner);
  free_.push_back(executor);
}

void MemberConnector::OnMembers(std::vector<cluster::Member> members) {
  std::set<std::string> listed;
  for (cluster::Member& member : members) {
    const std::string key = KeyOf(member);
    listed.insert(key);
    const auto [known, first] = known_.try_emplace(key);
    const bool back = !first && !known->second.listed;
    const bool joins = first || (back && known->second.short_of_sessions());
    known->second.member = std::move(member);
    known->second.listed = true;
    // All clients of the cluster hear of it at the same moment.
    if (joins) TryAfter(kFirstPause, {key, std::nullopt});
  }
  for (auto& [key, known] : known_) {
    if (listed.count(key) == 0) known.listed = false;
  }
  // What was to be tried again with one that has left is free.
  std::vector<Try> stay;
  for (Try& each : tries_) {
    const auto known = known_.find(each.key);
    if (known != known_.end() && known->second.listed) {
      stay.push_back(std::move(each));
    } else if (each.executor.has_value()) {
      OnLost(*each.executor);
    }
  }
  tries_ = std::move(stay);
  for (auto known = known_.begin(); known != known_.end();) {
    const bool gone = !known->second.listed && known->second.executors.empty();
    known = gone ? known_.erase(known) : std::next(known);
  }
}

void MemberConnector::StartDueTries() {
  for (size_t i = 0; i < tries_.size();) {
    if (!tries_[i].next.passed()) {
      ++i;
      continue;
    }
    Try due = std::move(tries_[i]);
    tries_.erase(tries_.begin() + static_cast<std::ptrdiff_t>(i));
    Connect(std::move(due));
  }
}

void MemberConnector::Connect(Try attempt) {
  const Known& known = known_[attempt.key];
  size_t sessions = attempt.executor.has_value() ? 1 : sessions_;
  if (!attempt.executor.has_value() && known.sessions > 0) {
    if (!known.short_of_sessions()) return;
    sessions = known.sessions - known.executors.size();
  }
  connecting_.Run([this, member = known.member, attempt, sessions] {
    if (stopping()) return;
    absl::StatusOr<Clients> clients = ConnectMember(member, options_, sessions);
    Put([this, attempt, clients = std::move(clients)] { OnConnected(attempt, clients); });
  });
}

void MemberConnector::OnConnected(Try attempt, absl::StatusOr<Clients> clients) {
  const auto found = known_.find(attempt.key);
  if (found == known_.end()) return;
  Known& known = found->second;
  // The cluster will say so soon, too.
  if (absl::IsAborted(clients.status())) known.stale = true;
  if (!known.listed || known.stale) {
    if (attempt.executor.has_value()) OnLost(*attempt.executor);
    return;
  }
  absl::Status status = clients.status();
  if (status.ok()) {
    status = attempt.executor.has_value() ? places_.replace(*attempt.executor, clients->front())
                                          : Join(&known, *clients);
  }
  if (status.ok()) return;
  const absl::Duration pause = std::min(2 * attempt.pause, kLongestPause);
  TryAfter(pause, std::move(attempt));
}

// OK once one of the sessions has a place, or the member lacks none any more.
absl::Status MemberConnector::Join(Known* known, const Clients& clients) {
  const size_t before = known->executors.size();
  const bool first = known->sessions == 0;
  absl::Status last;
  for (const std::shared_ptr<Client>& client : clients) {
    if (!first && !known->short_of_sessions()) return absl::OkStatus();
    size_t executor = 0;
    if (!free_.empty()) {
      executor = free_.back();
      last = places_.replace(executor, client);
      if (last.ok()) free_.pop_back();
    } else {
      absl::StatusOr<size_t> added = places_.add(client);
      last = added.status();
      executor = added.value_or(0);
    }
    if (!last.ok()) break;
    owners_[executor] = KeyOf(known->member);
    known->executors.push_back(executor);
  }
  if (first) known->sessions = known->executors.size();
  return known->executors.size() == before ? last : absl::OkStatus();
}

void MemberConnector::TryAfter(absl::Duration pause, Try attempt) {
  attempt.pause = pause;
  attempt.next = CallDeadline(WithJitter(pause));
  tries_.push_back(std::move(attempt));
}

}  // namespace invoker
