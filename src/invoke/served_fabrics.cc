#include "src/invoke/served_fabrics.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/bootstrap/messages.h"
#include "src/transport/provider_profile.h"
#include "src/transport/self_test.h"

namespace invoker {
namespace {

using transport::FabricChoice;
using transport::FabricRequest;

// More than a fabric needs that works.
constexpr absl::Duration kSelfTestLimit = absl::Seconds(5);

std::vector<FabricRequest> RequestsFor(const std::vector<std::string>& providers) {
  std::vector<FabricRequest> requests;
  for (const std::string& provider : providers) requests.emplace_back().provider = provider;
  return requests;
}

absl::Status CheckNames(absl::Span<const std::string> providers) {
  if (providers.size() > bootstrap::kMaxFabrics) {
    return absl::InvalidArgumentError(absl::StrCat("a worker serves at most ",
                                                   bootstrap::kMaxFabrics, " fabrics; ",
                                                   providers.size(), " were asked for"));
  }
  std::set<std::string> seen;
  for (const std::string& provider : providers) {
    if (provider.empty()) return absl::InvalidArgumentError("the name of a provider is empty");
    if (provider == transport::kAutoProvider) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", transport::kAutoProvider,
                       "\" stands for all providers that work: it cannot be one "
                       "of several names"));
    }
    if (!seen.insert(provider).second) {
      return absl::InvalidArgumentError(absl::StrCat("provider \"", provider, "\" is named twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWindow(const FabricChoice& fabric, uint64_t window_bytes) {
  if (fabric.profile.max_message_bytes >= window_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a window of ", window_bytes, " bytes is more than provider ",
                   fabric.profile.provider, " writes at once: ", fabric.profile.max_message_bytes));
}

absl::StatusOr<ServedFabrics> TakeNamed(absl::Span<const std::string> providers,
                                        const FabricAddresses& addresses, uint64_t window_bytes) {
  if (absl::Status status = CheckNames(providers); !status.ok()) return status;
  absl::StatusOr<std::vector<FoundFabric>> found =
      FindFabrics(RequestsFor({providers.begin(), providers.end()}), addresses);
  if (!found.ok()) return found.status();
  ServedFabrics served;
  served.by_name = true;
  for (FoundFabric& fabric : *found) {
    if (!fabric.choice.ok()) return fabric.choice.status();
    if (absl::Status status = CheckWindow(*fabric.choice, window_bytes); !status.ok()) {
      return status;
    }
    served.fabrics.push_back(*std::move(fabric.choice));
  }
  return served;
}

// OK, or why the fabric is not offered. Narrows the choice to what was seen to work.
absl::Status Prove(FoundFabric* fabric, uint64_t window_bytes, std::vector<std::string>* notes) {
  if (!fabric->choice.ok()) return fabric->choice.status();
  transport::Profile& profile = fabric->choice->profile;
  if (absl::Status status = CheckWindow(*fabric->choice, window_bytes); !status.ok()) {
    return status;
  }
  const transport::SelfTestResult test = transport::RunSelfTest(fabric->request, kSelfTestLimit);
  if (!test.status.ok()) return test.status;
  if (test.notification != profile.notification) {
    notes->push_back(absl::StrCat(profile.provider, " is served with ",
                                  transport::NotificationName(test.notification), ": ",
                                  test.immediate_failure));
    profile.notification = test.notification;
  }
  return absl::OkStatus();
}

absl::StatusOr<ServedFabrics> TakeProven(const FabricAddresses& addresses, uint64_t window_bytes) {
  std::vector<std::string> providers;
  for (const transport::ProfileRow* row : transport::AutoRows()) {
    providers.emplace_back(row->provider);
  }
  absl::StatusOr<std::vector<FoundFabric>> found = FindFabrics(RequestsFor(providers), addresses);
  if (!found.ok()) return found.status();
  ServedFabrics served;
  std::vector<std::string> reasons;
  for (FoundFabric& fabric : *found) {
    const absl::Status status = Prove(&fabric, window_bytes, &served.notes);
    if (status.ok()) {
      served.fabrics.push_back(*std::move(fabric.choice));
      continue;
    }
    reasons.push_back(absl::StrCat(fabric.request.provider, ": ", status.message()));
    // That this machine has no such fabric is no news.
    if (!absl::IsNotFound(status)) {
      served.notes.push_back(
          absl::StrCat(fabric.request.provider, " is not offered: ", status.message()));
    }
  }
  if (served.fabrics.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no fabric of this machine can be served; `invoker fabrics` says more about each. ",
        absl::StrJoin(reasons, "; ")));
  }
  return served;
}

}  // namespace

absl::StatusOr<ServedFabrics> SelectServedFabrics(absl::Span<const std::string> providers,
                                                  const FabricAddresses& addresses,
                                                  uint64_t window_bytes) {
  const bool automatic =
      providers.empty() ||
      (providers.size() == 1 && (providers[0].empty() || providers[0] == transport::kAutoProvider));
  return automatic ? TakeProven(addresses, window_bytes)
                   : TakeNamed(providers, addresses, window_bytes);
}

}  // namespace invoker
