#include "src/lease/lease_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/lease/usage_reading.h"
#include "src/log/log.h"

namespace invoker {
namespace {

// Starting is mostly waiting, for processes that share the machine's cores.
constexpr size_t kStarters = 8;
// How long a function that runs when its lease ends may go on, so that what it has used is counted.
constexpr absl::Duration kEndGrace = absl::Milliseconds(250);
constexpr absl::Duration kReadingInterval = absl::Seconds(1);
// Those in line hear of their places no more often, however fast the line moves.
constexpr absl::Duration kTellingInterval = absl::Milliseconds(50);

}  // namespace

LeaseHost::LeaseHost(const LeasePolicy& policy, Shared shared, SpawnerSource* spawner,
                     UsageBook* book)
    : policy_(policy),
      shared_(std::move(shared)),
      spawner_(spawner),
      book_(book),
      capacity_(policy.total, policy.max_waiting),
      // Run with the lock held, which what runs takes.
      starters_(kStarters, bootstrap::WorkThreads::Started::kOne),
      clock_([this] { RunClock(); }) {}

LeaseHost::~LeaseHost() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    changed_.Signal();
  }
  clock_.join();
}

void LeaseHost::set_events(Events events) {
  absl::MutexLock lock(&mutex_);
  events_ = std::move(events);
}

LeaseHost::Events LeaseHost::events() const {
  absl::MutexLock lock(&mutex_);
  return events_;
}

bootstrap::WorkerInfo LeaseHost::Info() const {
  bootstrap::WorkerInfo info = shared_.host->Info();
  absl::MutexLock lock(&mutex_);
  info.capacity = {capacity_.total().cores,
                   capacity_.free().cores,
                   capacity_.total().memory_bytes,
                   capacity_.free().memory_bytes,
                   policy_.allow_upload,
                   policy_.python,
                   capacity_.waiting()};
  return info;
}

void LeaseHost::OpenLease(uint64_t lease, const LeaseTerms& asked,
                          std::shared_ptr<LeaseObserver> observer) {
  absl::StatusOr<LeaseTerms> terms = ResolveTerms(asked, policy_);
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[lease];
  entry.phase = Phase::kRefused;
  entry.observer = std::move(observer);
  if (terms.ok() && terms->executors > 0) {
    if (absl::Status possible = capacity_.CheckPossible(ResourcesOf(*terms)); !possible.ok()) {
      terms = std::move(possible);
    } else if (draining_) {
      terms = absl::UnavailableError("the worker is shutting down");
    }
  }
  if (!terms.ok()) {
    entry.observer->OnGranted(terms.status());
    return;
  }
  entry.terms = *terms;
  if (absl::Status status = CountForTenant(&entry); !status.ok()) {
    entry.observer->OnGranted(status);
    return;
  }
  if (terms->executors == 0) {
    entry.phase = Phase::kShared;
    book_->OpenLease(lease, terms->tenant, 0, 0);
    entry.observer->OnGranted(*terms);
  } else if (capacity_.TryTake(lease, ResourcesOf(*terms))) {
    Admit(lease, &entry);
  } else if (terms->wait <= absl::ZeroDuration()) {
    entry.observer->OnGranted(NoRoom(*terms));
  } else if (absl::Status queued = capacity_.Enqueue(lease, ResourcesOf(*terms)); !queued.ok()) {
    entry.observer->OnGranted(queued);
  } else {
    entry.phase = Phase::kWaiting;
    if (terms->wait < absl::InfiniteDuration()) {
      entry.give_up = Clock::now() + absl::ToChronoNanoseconds(terms->wait);
    }
    // Nothing has become free, and nobody else's place has changed.
    entry.told_ahead = int64_t{capacity_.waiting()} - 1;
    entry.observer->OnQueued(static_cast<uint32_t>(entry.told_ahead));
  }
  changed_.Signal();
}

absl::Status LeaseHost::NoRoom(const LeaseTerms& terms) const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "there is no room for the lease: it asks for ", Describe(ResourcesOf(terms)), "; of ",
      Describe(capacity_.total()), ", ", Describe(capacity_.free()), " are free, and ",
      capacity_.waiting(), " leases wait in line; ask for less, or to wait for longer"));
}

void LeaseHost::Admit(uint64_t lease, Entry* entry) {
  entry->phase = Phase::kStarting;
  entry->to_start = entry->terms.executors;
  entry->executors =
      std::make_shared<ExecutorLease>(entry->terms, EventsFor(lease, entry->observer));
  for (uint32_t index = 0; index < entry->terms.executors; ++index) {
    starters_.Run([this, lease, executors = entry->executors, index] {
      StartExecutor(lease, executors, index);
    });
  }
}

ExecutorLease::Events LeaseHost::EventsFor(uint64_t lease,
                                           std::shared_ptr<LeaseObserver> observer) {
  ExecutorLease::Events own;
  own.on_ended = [this, lease, observer = std::move(observer)](const LeaseEnd& end) {
    OnLost(lease, end.reason);
    observer->OnEnded(end);
  };
  own.on_session_closed = [this, lease](uint64_t handle, absl::string_view reason) {
    if (const Events told = events(); told.on_session_closed) {
      told.on_session_closed(lease, handle, reason);
    }
  };
  own.on_downgraded = [this](absl::string_view provider, absl::string_view reason) {
    downgrades_.fetch_add(1, std::memory_order_relaxed);
    if (const Events told = events(); told.on_downgraded) told.on_downgraded(provider, reason);
  };
  return own;
}

void LeaseHost::StartExecutor(uint64_t lease, std::shared_ptr<ExecutorLease> executors,
                              uint32_t index) {
  absl::StatusOr<ExecutorSpawner*> spawner = spawner_->Get();
  OnStarted(lease, spawner.ok() ? executors->Start(index, *spawner) : spawner.status());
}

void LeaseHost::OnStarted(uint64_t lease, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(lease);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  --entry.to_start;
  if (entry.closing || entry.phase != Phase::kStarting) return;
  if (!status.ok()) {
    entry.phase = Phase::kRefused;
    entry.observer->OnGranted(absl::Status(
        status.code(),
        absl::StrCat("the lease's executors could not be started: ", status.message())));
  } else if (entry.to_start == 0) {
    entry.phase = Phase::kRunning;
    book_->OpenLease(lease, entry.terms.tenant, entry.terms.executors, entry.terms.memory_bytes);
    entry.observer->OnGranted(entry.terms);
    if (draining_) entry.executors->Drain();
    changed_.Signal();
  }
}

void LeaseHost::MoveLine() {
  for (const uint64_t lease : capacity_.Admit()) Admit(lease, &entries_.at(lease));
  if (capacity_.waiting() == 0) return;
  places_changed_ = true;
  changed_.Signal();
}

void LeaseHost::TellPlaces() {
  places_changed_ = false;
  int64_t ahead = 0;
  for (const uint64_t lease : capacity_.Waiting()) {
    Entry& entry = entries_.at(lease);
    if (entry.told_ahead != ahead) {
      entry.told_ahead = ahead;
      entry.observer->OnQueued(static_cast<uint32_t>(ahead));
    }
    ++ahead;
  }
}

void LeaseHost::RetireLease(uint64_t lease) {
  if (const std::shared_ptr<ExecutorLease> executors = Find(lease); executors != nullptr) {
    executors->Stop(kEndGrace);
  } else {
    shared_.host->RetireLease(lease);
  }
}

ResourceUsage LeaseHost::CloseLease(uint64_t lease) {
  std::shared_ptr<ExecutorLease> executors;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(lease);
    if (found == entries_.end()) return {};
    executors = found->second.executors;
    found->second.closing = true;
    if (executors == nullptr && found->second.phase != Phase::kShared) {
      Uncount(found->second);
      entries_.erase(found);
      capacity_.Leave(lease);
      MoveLine();
      return {};
    }
  }
  UsageReading last;
  if (executors != nullptr) {
    last = executors->End(kEndGrace);
  } else {
    const ResourceUsage usage = shared_.host->CloseLease(lease);
    last = ReadingOf(usage, usage.cpu_time);
  }
  ResourceUsage bill = book_->CloseLease(lease, last);
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(lease);
  Uncount(entry->second);
  entries_.erase(entry);
  if (executors != nullptr) {
    LoadShared(executors->Dropped(), &ended_dropped_);
    bootstrap::ExecutorsStatus last_status;
    executors->AddStatus(&last_status);
    ended_.functions.Add(last_status.functions);
    ended_.starts += last_status.starts;
    ended_.cold_starts += last_status.cold_starts;
    capacity_.Leave(lease);
    MoveLine();
  }
  return bill;
}

std::shared_ptr<ExecutorLease> LeaseHost::Find(uint64_t lease) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(lease);
  return found != entries_.end() ? found->second.executors : nullptr;
}

absl::StatusOr<bootstrap::OpenSessionReply> LeaseHost::OpenSession(
    uint64_t lease, const bootstrap::OpenSessionRequest& request) {
  const std::shared_ptr<ExecutorLease> executors = Find(lease);
  absl::StatusOr<bootstrap::OpenSessionReply> reply =
      executors == nullptr ? shared_.host->OpenSession(lease, request)
                           : executors->OpenSession(request);
  if (IsLogged(LogLevel::kDebug)) {
    LogDebug(absl::StrCat("a session on ", request.fabric.provider,
                          reply.ok() ? " is open" : " was refused: ",
                          reply.ok() ? "" : reply.status().message()),
             {book_->NumberOf(lease), reply.ok() ? reply->handle : 0});
  }
  return reply;
}

absl::Status LeaseHost::SwitchNotification(uint64_t lease, uint64_t handle,
                                           Notification notification, absl::string_view reason) {
  const std::shared_ptr<ExecutorLease> executors = Find(lease);
  if (executors == nullptr) {
    return shared_.host->SwitchNotification(lease, handle, notification, reason);
  }
  return executors->SwitchNotification(handle, notification, reason);
}

absl::Status LeaseHost::CloseSession(uint64_t lease, uint64_t handle) {
  const std::shared_ptr<ExecutorLease> executors = Find(lease);
  if (IsLogged(LogLevel::kDebug)) {
    LogDebug("a client closes a session", {book_->NumberOf(lease), handle});
  }
  if (executors == nullptr) return shared_.host->CloseSession(lease, handle);
  return executors->CloseSession(handle);
}

absl::StatusOr<std::vector<bootstrap::FunctionInfo>> LeaseHost::Load(uint64_t lease,
                                                                     const std::string& path,
                                                                     CodeKind kind,
                                                                     const std::string& name) {
  const std::shared_ptr<ExecutorLease> executors = Find(lease);
  if (executors == nullptr) return shared_.host->Load(lease, path, kind, name);
  return executors->Load(path, kind, name);
}

absl::StatusOr<uint16_t> LeaseHost::RegisterWindow(uint64_t lease, uint64_t handle,
                                                   const bootstrap::WindowDescriptor& window,
                                                   bool readable, bool writable) {
  const std::shared_ptr<ExecutorLease> executors = Find(lease);
  if (executors == nullptr) {
    return shared_.host->RegisterWindow(lease, handle, window, readable, writable);
  }
  return executors->RegisterWindow(handle, window, readable, writable);
}

absl::StatusOr<bootstrap::RequestState> LeaseHost::FindRequest(uint64_t lease, uint64_t handle,
                                                               uint64_t sequence) {
  const std::shared_ptr<ExecutorLease> executors = Find(lease);
  if (executors == nullptr) return shared_.host->FindRequest(lease, handle, sequence);
  return executors->FindRequest(handle, sequence);
}

absl::Status LeaseHost::ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) {
  const std::shared_ptr<ExecutorLease> executors = Find(lease);
  if (executors == nullptr) return shared_.host->ForgetWindow(lease, handle, number);
  return executors->ForgetWindow(handle, number);
}

absl::StatusOr<bootstrap::LeaseIdentity> LeaseHost::FindLease(uint64_t number) {
  return book_->Find(number);
}

std::vector<bootstrap::UsageRecord> LeaseHost::GetUsage(absl::string_view tenant) {
  const Clock::time_point asked = Clock::now();
  {
    absl::MutexLock lock(&mutex_);
    TakeReadings(asked);
  }
  return book_->Records(tenant);
}

absl::StatusOr<ResourceUsage> LeaseHost::LeaseUsage(uint64_t lease) {
  const Clock::time_point asked = Clock::now();
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = entries_.find(lease); found != entries_.end()) {
      TakeReading(lease, asked, &found->second);
    }
  }
  const absl::optional<ResourceUsage> usage = book_->OpenUsage(lease);
  if (!usage.has_value()) return absl::NotFoundError("the lease is not open");
  return *usage;
}

// One thread reads for all threads that waited for the lock at the same time.
void LeaseHost::TakeReading(uint64_t lease, Clock::time_point asked, Entry* entry) {
  if (entry->closing || entry->read_at >= asked) return;
  entry->read_at = Clock::now();
  if (entry->phase == Phase::kRunning) {
    book_->Update(lease, entry->executors->Usage());
  } else if (entry->phase == Phase::kShared && shared_.usage) {
    book_->Update(lease, shared_.usage(lease));
  }
}

void LeaseHost::TakeReadings(Clock::time_point asked) {
  for (auto& [lease, entry] : entries_) TakeReading(lease, asked, &entry);
}

void LeaseHost::Drain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  for (const auto& [lease, entry] : entries_) {
    if (entry.executors != nullptr) entry.executors->Drain();
  }
}

void LeaseHost::Stop(absl::Duration limit) {
  Drain();
  std::vector<std::shared_ptr<ExecutorLease>> all;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [lease, entry] : entries_) {
      if (entry.executors != nullptr) all.push_back(entry.executors);
    }
  }
  for (const auto& executors : all) executors->Stop(limit);
  for (const auto& executors : all) executors->AwaitEnd();
}

absl::Duration LeaseHost::UntilNext(Clock::time_point now) const {
  absl::Duration wait = absl::InfiniteDuration();
  if (places_changed_) wait = absl::FromChrono(next_telling_ - now);
  for (const auto& [lease, entry] : entries_) {
    if (entry.phase == Phase::kRunning || entry.phase == Phase::kShared) {
      wait = std::min(wait, kReadingInterval);
    } else if (entry.phase == Phase::kWaiting && entry.give_up != Clock::time_point::max()) {
      wait = std::min(wait, absl::FromChrono(entry.give_up - now));
    }
  }
  return std::max(wait, absl::ZeroDuration());
}

void LeaseHost::EndWaits(Clock::time_point now) {
  bool left = false;
  for (auto& [lease, entry] : entries_) {
    if (entry.phase != Phase::kWaiting || entry.give_up > now) continue;
    entry.phase = Phase::kRefused;
    capacity_.Leave(lease);
    entry.observer->OnGranted(NoRoom(entry.terms));
    left = true;
  }
  if (left) MoveLine();
}

void LeaseHost::RunClock() {
  absl::MutexLock lock(&mutex_);
  Clock::time_point next_reading = Clock::now();
  while (!ending_) {
    const Clock::time_point now = Clock::now();
    EndWaits(now);
    if (places_changed_ && now >= next_telling_) {
      TellPlaces();
      next_telling_ = now + absl::ToChronoNanoseconds(kTellingInterval);
    }
    if (now >= next_reading) {
      TakeReadings(now);
      next_reading = now + absl::ToChronoNanoseconds(kReadingInterval);
    }
    changed_.WaitWithTimeout(&mutex_, UntilNext(now));
  }
}

}  // namespace invoker
