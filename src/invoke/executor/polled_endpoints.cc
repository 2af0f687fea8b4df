#include "src/invoke/executor/polled_endpoints.h"

#include <memory>

namespace invoker {

void PolledEndpoints::Rearrange() {
  shared_->rearrange = false;
  live_.clear();
  leaving_.clear();
  reactors_.clear();
  awaits_check_ = false;
  for (const std::unique_ptr<EndpointSet>& set : all_->sets()) set->SettleRetired();
  all_->ForEach([this](ExecutorEndpoint* endpoint) {
    if (!endpoint->live() && endpoint->settled()) return;
    (endpoint->live() ? live_ : leaving_).push_back(endpoint);
    reactors_.push_back(endpoint->reactor());
    awaits_check_ |= endpoint->reactor()->awaits_check();
  });
}

void PolledEndpoints::PollLeaving() {
  for (ExecutorEndpoint* endpoint : leaving_) {
    endpoint->Turn();
    if (endpoint->settled()) shared_->rearrange = true;
  }
}

}  // namespace invoker
