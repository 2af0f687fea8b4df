#include "src/invoke/executor/endpoint_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

// What remains of a port that is about to be closed.
ExecutorCounters WithoutEndpoint(ExecutorCounters counters) {
  counters.live_sessions = 0;
  counters.peers = 0;
  counters.peers_kept = 0;
  counters.regions = 0;
  counters.quarantined_bytes = 0;
  counters.quarantined_ranges = 0;
  return counters;
}

}  // namespace

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
    return Refusal(reason, "another one would have no room either");
  }
  return PutAnotherInPlace(reason, !current()->reactor()->health().ok());
}

absl::StatusOr<std::string> EndpointSet::ReplaceSilent(const absl::Status& reason,
                                                       bool end_sessions) {
  const std::shared_ptr<ExecutorEndpoint> silent = current();
  // It may only be slow, so it is better than none.
  if (!end_sessions && others_.load(std::memory_order_relaxed) == kMostOthers) return "";
  absl::StatusOr<std::string> replaced = PutAnotherInPlace(reason, end_sessions);
  if (end_sessions) silent->GiveUp(reason);
  return replaced;
}

absl::StatusOr<std::string> EndpointSet::PutAnotherInPlace(const absl::Status& reason,
                                                           bool sessions_end) {
  const std::shared_ptr<ExecutorEndpoint> full = current();
  if (others_.load(std::memory_order_relaxed) == kMostOthers) {
    return Refusal(reason, absl::StrCat("there are ", kMostOthers, " endpoints before it already"));
  }
  absl::StatusOr<transport::FabricChoice> copy = transport::CopyOf(full->choice());
  if (!copy.ok()) return copy.status();
  auto next = std::make_shared<ExecutorEndpoint>(fabric_, *std::move(copy), shared_,
                                                 full->next_number(), options_);
  before_.push_back(full);
  const size_t others = others_.fetch_add(1, std::memory_order_relaxed) + 1;
  {
    absl::MutexLock lock(&mutex_);
    current_ = std::move(next);
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
  for (const std::shared_ptr<ExecutorEndpoint>& port : before_) visit(port.get());
}

ExecutorEndpoint* EndpointSet::PortOf(SessionKey key) const {
  ExecutorEndpoint* found = nullptr;
  ForEach([&](ExecutorEndpoint* port) {
    if (port->open() && port->Find(key) != nullptr) found = port;
  });
  return found;
}

void EndpointSet::PutSettledAway() {
  const auto settled = std::stable_partition(before_.begin(), before_.end(),
                                             [](const std::shared_ptr<ExecutorEndpoint>& port) {
                                               return port->live() || !port->settled();
                                             });
  for (auto port = settled; port != before_.end(); ++port) {
    (*port)->PutAway();
    if (profile().close_needs_quiet) {
      away_.push_back(*std::move(port));
    } else {
      closing_.push_back(*std::move(port));
      others_.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  before_.erase(settled, before_.end());
}

void EndpointSet::TakeClosed(std::vector<std::shared_ptr<ExecutorEndpoint>>* closed) {
  for (std::shared_ptr<ExecutorEndpoint>& port : closing_) {
    closed_.Add(WithoutEndpoint(port->Counters()));
    closed->push_back(std::move(port));
  }
  closing_.clear();
}

ExecutorCounters EndpointSet::Counters() const {
  ExecutorCounters sum = closed_;
  ForEach([&](ExecutorEndpoint* port) {
    if (port->open()) port->CountStrayMessages();
    sum.Add(port->Counters());
  });
  for (const auto* ports : {&away_, &closing_}) {
    for (const std::shared_ptr<ExecutorEndpoint>& port : *ports) sum.Add(port->Counters());
  }
  return sum;
}

}  // namespace invoker
