#include "src/invoke/executor/endpoint_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker {
EndpointSet::EndpointSet(uint16_t fabric, transport::FabricChoice choice, ExecutorShared* shared,
                         uint16_t first_number, const transport::ReactorOptions& options)
    : fabric_(fabric),
      profile_(choice.profile),
      shared_(shared),
      options_(options),
      current_(std::make_shared<ExecutorEndpoint>(fabric, std::move(choice), shared, first_number,
                                                  options)) {}

std::shared_ptr<ExecutorEndpoint> EndpointSet::current() const {
  absl::MutexLock lock(&mutex_);
  return current_;
}

// Once, however many sessions it refuses.
void EndpointSet::CountGivenUp(const ExecutorEndpoint& endpoint) {
  if (std::exchange(counted_, &endpoint) == &endpoint) return;
  shared_->endpoints_given_up.fetch_add(1, std::memory_order_relaxed);
}

absl::Status EndpointSet::Refusal(const absl::Status& reason, absl::string_view why) const {
  return absl::Status(
      reason.code(),
      absl::StrCat("the endpoint of provider ", profile().provider,
                   " takes no more sessions: ", reason.message(), "; ", why,
                   ": it takes sessions again after a restart of the server",
                   profile().close_needs_quiet
                       ? ""
                       : ", or when all sessions on one of the endpoints have ended"));
}

absl::StatusOr<std::string> EndpointSet::Replace(const absl::Status& reason) {
  if (!current()->worth_replacing()) {
    CountGivenUp(*current());
    return Refusal(reason, "another one would have no room either");
  }
  return PutAnotherInPlace(reason, !current()->reactor()->health().ok());
}

absl::StatusOr<std::string> EndpointSet::ReplaceSilent(const absl::Status& reason,
                                                       bool end_sessions) {
  const std::shared_ptr<ExecutorEndpoint> silent = current();
  // The endpoint may only be slow, so it is better than none.
  if (!end_sessions && others_.load(std::memory_order_relaxed) == kMostOthers) return "";
  absl::StatusOr<std::string> replaced = PutAnotherInPlace(reason, end_sessions);
  if (end_sessions) silent->GiveUp(reason);
  return replaced;
}

absl::StatusOr<std::string> EndpointSet::PutAnotherInPlace(const absl::Status& reason,
                                                           bool sessions_end) {
  const std::shared_ptr<ExecutorEndpoint> full = current();
  CountGivenUp(*full);
  if (others_.load(std::memory_order_relaxed) == kMostOthers) {
    return Refusal(reason, absl::StrCat("there are ", kMostOthers, " endpoints before it already"));
  }
  absl::StatusOr<transport::FabricChoice> copy = transport::CopyOf(full->choice());
  if (!copy.ok()) return copy.status();
  auto next = std::make_shared<ExecutorEndpoint>(fabric_, *std::move(copy), shared_,
                                                 full->next_number(), options_);
  retired_.push_back(full);
  const size_t others = others_.fetch_add(1, std::memory_order_relaxed) + 1;
  {
    absl::MutexLock lock(&mutex_);
    current_ = std::move(next);
    counted_ = nullptr;
  }
  shared_->rearrange = true;
  return absl::StrCat("an endpoint of provider ", profile().provider, " takes no more sessions (",
                      reason.message(), "): new ones get another endpoint, and its ",
                      full->live_sessions(), sessions_end ? " end" : " stay", "; it is number ",
                      others, " of the ", kMostOthers,
                      " that an executor can have beside the one in use",
                      profile().close_needs_quiet ? ", until the server is restarted"
                                                  : ", and is closed when its sessions have ended");
}

void EndpointSet::ForEach(absl::FunctionRef<void(ExecutorEndpoint*)> visit) const {
  visit(current().get());
  for (const std::shared_ptr<ExecutorEndpoint>& endpoint : retired_) visit(endpoint.get());
}

ExecutorEndpoint* EndpointSet::Find(SessionKey key) const {
  ExecutorEndpoint* found = nullptr;
  ForEach([&](ExecutorEndpoint* endpoint) {
    if (endpoint->open() && endpoint->Find(key) != nullptr) found = endpoint;
  });
  return found;
}

void EndpointSet::SettleRetired() {
  const auto settled = std::stable_partition(retired_.begin(), retired_.end(),
                                             [](const std::shared_ptr<ExecutorEndpoint>& endpoint) {
                                               return endpoint->live() || !endpoint->settled();
                                             });
  for (auto endpoint = settled; endpoint != retired_.end(); ++endpoint) {
    (*endpoint)->EndPolling();
    if (profile().close_needs_quiet) {
      quarantined_.push_back(*std::move(endpoint));
    } else {
      releasable_.push_back(*std::move(endpoint));
      others_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  retired_.erase(settled, retired_.end());
}

void EndpointSet::TakeReleasable(std::vector<std::shared_ptr<ExecutorEndpoint>>* released) {
  for (std::shared_ptr<ExecutorEndpoint>& endpoint : releasable_) {
    released_.Add(endpoint->Counters().WithoutEndpoint());
    released->push_back(std::move(endpoint));
  }
  releasable_.clear();
}

ExecutorCounters EndpointSet::Counters() const {
  ExecutorCounters sum = released_;
  ForEach([&](ExecutorEndpoint* endpoint) {
    if (endpoint->open()) endpoint->CountStrayMessages();
    sum.Add(endpoint->Counters());
  });
  for (const auto* endpoints : {&quarantined_, &releasable_}) {
    for (const std::shared_ptr<ExecutorEndpoint>& endpoint : *endpoints)
      sum.Add(endpoint->Counters());
  }
  return sum;
}

}  // namespace invoker
