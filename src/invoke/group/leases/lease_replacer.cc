#include "src/invoke/group/leases/lease_replacer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/start_thread.h"

namespace invoker {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

}  // namespace

LeaseReplacer::LeaseReplacer(const std::vector<LeasePtr>& leases, absl::Duration ttl, Places places)
    : places_(std::move(places)),
      until_(ttl > absl::ZeroDuration() ? CallDeadline(ttl) : CallDeadline()) {
  for (const LeasePtr& lease : leases) owners_.insert(owners_.end(), lease->size(), lease);
}

LeaseReplacer::~LeaseReplacer() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status LeaseReplacer::Start() {
  return transport::StartThread(&thread_, [this] { Run(); });
}

void LeaseReplacer::Lost(size_t executor) {
  absl::MutexLock lock(&mutex_);
  lost_.insert(executor);
}

void LeaseReplacer::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
}

void LeaseReplacer::Run() {
  absl::Duration pause;
  while (true) {
    std::set<size_t> lost;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&stop_), pause);
      const auto due = [this]()
                           ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stop_ || !lost_.empty(); };
      mutex_.Await(absl::Condition(&due));
      if (stop_ || until_.passed()) return;
      lost.swap(lost_);
    }
    const size_t before = lost.size();
    Replace(&lost);
    pause = lost.size() < before ? absl::ZeroDuration()
                                 : std::clamp(2 * pause, kFirstPause, kLongestPause);
    absl::MutexLock lock(&mutex_);
    lost_.merge(lost);
  }
}

void LeaseReplacer::Replace(std::set<size_t>* lost) {
  std::vector<size_t> executors;
  for (auto executor = lost->begin(); executor != lost->end();) {
    const absl::Status status = owners_[*executor]->status();
    // One whose session alone was lost waits for what its lease says.
    if (absl::IsUnavailable(status)) executors.push_back(*executor);
    // For good, by what a function did.
    executor = absl::IsAborted(status) ? lost->erase(executor) : std::next(executor);
  }
  if (executors.empty()) return;
  absl::StatusOr<std::vector<LeasePtr>> leases =
      places_.acquire(static_cast<uint32_t>(executors.size()),
                      until_.none() ? absl::ZeroDuration() : until_.left());
  if (!leases.ok()) return;
  auto next = executors.begin();
  for (const LeasePtr& lease : *leases) {
    const auto end = next + static_cast<std::ptrdiff_t>(lease->size());
    if (!Use(lease, {next, end}, lost)) return;
    next = end;
  }
}

bool LeaseReplacer::Use(const LeasePtr& lease, const std::vector<size_t>& executors,
                        std::set<size_t>* lost) {
  // One lease may stand in for executors of several servers.
  std::vector<LeasePtr> owners;
  for (const size_t executor : executors) owners.push_back(owners_[executor]);
  if (!places_.bring(owners, lease).ok()) return false;
  for (size_t i = 0; i < executors.size(); ++i) {
    if (!places_.replace(executors[i], {lease, &lease->executor(i)}).ok()) {
      if (i == 0) places_.drop(lease);
      return false;
    }
    owners_[executors[i]] = lease;
    lost->erase(executors[i]);
  }
  return true;
}

}  // namespace invoker
