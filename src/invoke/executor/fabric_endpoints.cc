#include "src/invoke/executor/fabric_endpoints.h"

#include <utility>

namespace invoker {
namespace {

using transport::ReactorUse;

}  // namespace

FabricEndpoints::FabricEndpoints(std::vector<transport::FabricChoice> fabrics,
                                 ExecutorShared* shared, uint16_t first_number,
                                 const transport::ReactorOptions& options)
    : second_sets_(fabrics.size(), nullptr) {
  transport::ReactorOptions other = options;
  other.use = options.use == ReactorUse::kHot ? ReactorUse::kBlocking : ReactorUse::kHot;
  std::vector<std::unique_ptr<EndpointSet>> second;
  for (transport::FabricChoice& fabric : fabrics) {
    const auto place = static_cast<uint16_t>(sets_.size());
    if (fabric.profile.wait_slows_polling) {
      absl::StatusOr<transport::FabricChoice> copy = transport::CopyOf(fabric);
      if (copy.ok()) {
        second.push_back(
            std::make_unique<EndpointSet>(place, *std::move(copy), shared, first_number, other));
        second_sets_[place] = second.back().get();
      }
    }
    sets_.push_back(
        std::make_unique<EndpointSet>(place, std::move(fabric), shared, first_number, options));
  }
  for (std::unique_ptr<EndpointSet>& set : second) sets_.push_back(std::move(set));
}

EndpointSet& FabricEndpoints::ForNewSession(size_t fabric, bool always_hot) const {
  EndpointSet* const first = sets_[fabric].get();
  EndpointSet* const second = second_sets_[fabric];
  if (second == nullptr) return *first;
  EndpointSet* const hot = first->use() == ReactorUse::kHot ? first : second;
  EndpointSet* const other = hot == first ? second : first;
  // With more, a poll without a wait object is as slow as a poll with one.
  const bool hot_is_better =
      always_hot && hot->current()->live_sessions() < SessionScheduler::kFewSessions;
  return hot->healthy() && (hot_is_better || !other->healthy()) ? *hot : *other;
}

ExecutorEndpoint* FabricEndpoints::Find(SessionKey key) const {
  ExecutorEndpoint* const found = sets_[key.fabric]->Find(key);
  EndpointSet* const second = second_sets_[key.fabric];
  return found != nullptr || second == nullptr ? found : second->Find(key);
}

void FabricEndpoints::ForEach(absl::FunctionRef<void(ExecutorEndpoint*)> visit) const {
  for (size_t fabric = 0; fabric < fabrics(); ++fabric) ForEachOf(fabric, visit);
}

void FabricEndpoints::ForEachOf(size_t fabric,
                                absl::FunctionRef<void(ExecutorEndpoint*)> visit) const {
  for (const EndpointSet* set : {sets_[fabric].get(), second_sets_[fabric]}) {
    if (set == nullptr) continue;
    set->ForEach([&visit](ExecutorEndpoint* endpoint) {
      if (endpoint->open()) visit(endpoint);
    });
  }
}

}  // namespace invoker
