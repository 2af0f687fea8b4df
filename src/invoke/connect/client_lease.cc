#include "src/invoke/connect/client_lease.h"

#include <algorithm>
#include <utility>

namespace invoker {
namespace {

// A session's end waits for a question that is under way.
constexpr absl::Duration kLongestAsk = absl::Seconds(1);

absl::Status Closing() {
  return absl::UnavailableError("the worker is shutting down, and takes no more calls");
}

}  // namespace

ClientLease::ClientLease(std::shared_ptr<const WorkerContact> contact, absl::Duration peer_timeout)
    : contact_(std::move(contact)), peer_timeout_(peer_timeout) {}

ClientLease::~ClientLease() = default;

absl::StatusOr<std::shared_ptr<ClientLease>> ClientLease::Acquire(
    std::shared_ptr<const WorkerContact> contact, const LeaseTerms& terms, absl::Duration timeout,
    std::function<void(uint32_t)> on_queued) {
  std::shared_ptr<ClientLease> held(new ClientLease(std::move(contact), terms.peer_timeout));
  bootstrap::LeaseEvents events;
  events.on_queued = std::move(on_queued);
  events.on_ended = [raw = held.get()](const LeaseEnd& end) {
    absl::MutexLock lock(&raw->mutex_);
    raw->end_ = end;
  };
  events.on_draining = [raw = held.get()](absl::string_view) {
    absl::MutexLock lock(&raw->mutex_);
    raw->draining_ = true;
  };
  events.on_closing = [raw = held.get()] { raw->OnClosing(); };
  events.on_lost = [raw = held.get()](const absl::Status& reason) { raw->OnLost(reason); };
  events.on_session_closed = [raw = held.get()](uint64_t handle, absl::string_view reason) {
    raw->OnSessionClosed(handle, reason);
  };
  // On a machine with too few processors for all, calls may be answered where heartbeats wait.
  // A session that closes takes its answers with it.
  events.shows_life = [raw = held.get()] { return raw->Answers() > raw->answers_; };
  events.on_heartbeat = [raw = held.get()] { raw->answers_ = raw->Answers(); };
  events.on_look = [raw = held.get()] { raw->CheckPaths(); };
  absl::StatusOr<std::unique_ptr<bootstrap::Lease>> lease =
      bootstrap::Lease::Acquire(held->contact_->bootstrap(), terms, std::move(events), timeout);
  if (!lease.ok()) return lease.status();
  held->lease_ = *std::move(lease);
  return held;
}

void ClientLease::Add(std::shared_ptr<SessionWatch> watch) {
  bool closing = false;
  absl::Status lost;
  {
    absl::MutexLock lock(&mutex_);
    watches_.push_back(watch);
    closing = closing_;
    lost = lost_;
  }
  if (closing) watch->TakeNoMore(Closing());
  if (!lost.ok()) watch->OnLost(lost, SessionWatch::DeliveryDeadlineNs());
}

void ClientLease::Remove(const SessionWatch* watch) {
  absl::MutexLock lock(&mutex_);
  watches_.erase(std::remove_if(watches_.begin(), watches_.end(),
                                [watch](const auto& one) { return one.get() == watch; }),
                 watches_.end());
}

bool ClientLease::HasRoom() const {
  const absl::Duration ttl = terms().ttl;
  if (ttl > absl::ZeroDuration() && ttl < absl::InfiniteDuration()) return false;
  absl::MutexLock lock(&mutex_);
  return watches_.size() < kMostSessions && !closed_to_others_ && lost_.ok() && !draining_ &&
         !closing_;
}

void ClientLease::CloseToOthers() {
  absl::MutexLock lock(&mutex_);
  closed_to_others_ = true;
}

absl::Status ClientLease::status() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

absl::optional<LeaseEnd> ClientLease::end() const {
  absl::MutexLock lock(&mutex_);
  return end_;
}

// Watches are told without the lock: to end a session takes the lock of its calls, whose holder may
// be about to open another one here.
std::vector<std::shared_ptr<SessionWatch>> ClientLease::watches() const {
  absl::MutexLock lock(&mutex_);
  return watches_;
}

void ClientLease::OnClosing() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  for (const std::shared_ptr<SessionWatch>& watch : watches()) watch->TakeNoMore(Closing());
}

void ClientLease::OnLost(const absl::Status& reason) {
  int64_t deadline_ns = SessionWatch::DeliveryDeadlineNs();
  {
    absl::MutexLock lock(&mutex_);
    lost_ = reason;
    // A worker that drains answers every call before it ends the lease. The answers come by another
    // way than the lease's end, and may be sent again where packets are lost.
    if (draining_ && end_.has_value() && end_->cause == LeaseEndCause::kServer) {
      deadline_ns = SessionWatch::DeliveryDeadlineNs(peer_timeout_);
    }
  }
  const std::vector<std::shared_ptr<SessionWatch>> all = watches();
  // First, so that what a callback of the first one's calls again does not go to the next one.
  for (const std::shared_ptr<SessionWatch>& watch : all) watch->AnnounceLost(reason);
  for (const std::shared_ptr<SessionWatch>& watch : all) watch->OnLost(reason, deadline_ns);
}

uint64_t ClientLease::Answers() const {
  uint64_t answers = 0;
  for (const std::shared_ptr<SessionWatch>& watch : watches()) answers += watch->Answers();
  return answers;
}

// Who has a watch has been given the lease: its id is there.
void ClientLease::CheckPaths() {
  const absl::Duration ask_timeout = std::min(peer_timeout_, kLongestAsk);
  for (const std::shared_ptr<SessionWatch>& watch : watches()) {
    watch->CheckPath([&](uint64_t handle, uint64_t sequence) {
      askers_.Run([this, id = lease_->id(), watch, handle, sequence, ask_timeout] {
        watch->Answered(handle, sequence,
                        contact_->bootstrap()->FindRequest(id, handle, sequence, ask_timeout));
      });
    });
  }
}

void ClientLease::OnSessionClosed(uint64_t handle, absl::string_view reason) {
  for (const std::shared_ptr<SessionWatch>& watch : watches()) {
    watch->OnSessionClosed(handle, reason);
  }
}

}  // namespace invoker
