#include "src/invoke/fabrics/served_fabrics.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/bootstrap/messages/messages.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker {
namespace {

using transport::FabricChoice;
using transport::FabricRequest;

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

// One result for each of `found`. Those that are not OK are not tried: they keep their status.
absl::StatusOr<std::vector<transport::SelfTestResult>> TryAll(
    const std::vector<FoundFabric>& found, const std::vector<absl::Status>& statuses,
    const transport::SelfTestOptions& options) {
  std::vector<FabricRequest> requests;
  for (size_t i = 0; i < found.size(); ++i) {
    if (statuses[i].ok()) requests.push_back(found[i].request);
  }
  absl::StatusOr<std::vector<transport::SelfTestResult>> tried =
      transport::RunSelfTestsApart(requests, options);
  if (!tried.ok()) return tried.status();
  std::vector<transport::SelfTestResult> results(found.size());
  size_t next = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (statuses[i].ok()) {
      results[i] = (*tried)[next++];
    } else {
      results[i].status = statuses[i];
    }
  }
  return results;
}

// Whether each can be served at all.
std::vector<absl::Status> CheckAll(const std::vector<FoundFabric>& found, uint64_t window_bytes) {
  std::vector<absl::Status> statuses;
  for (const FoundFabric& fabric : found) {
    statuses.push_back(fabric.choice.ok() ? CheckWindow(*fabric.choice, window_bytes)
                                          : fabric.choice.status());
  }
  return statuses;
}

absl::StatusOr<ServedFabrics> TakeNamed(absl::Span<const std::string> providers,
                                        const FabricAddresses& addresses, uint64_t window_bytes) {
  if (absl::Status status = CheckNames(providers); !status.ok()) return status;
  absl::StatusOr<std::vector<FoundFabric>> found =
      FindFabrics(RequestsFor({providers.begin(), providers.end()}), addresses);
  if (!found.ok()) return found.status();
  const std::vector<absl::Status> statuses = CheckAll(*found, window_bytes);
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  ServedFabrics served;
  served.by_name = true;
  for (FoundFabric& fabric : *found) served.fabrics.push_back(*std::move(fabric.choice));
  return served;
}

// Narrows the choice to what was seen to work.
void Narrow(const transport::SelfTestResult& test, FabricChoice* fabric,
            std::vector<std::string>* notes) {
  transport::Profile& profile = fabric->profile;
  if (test.notification == profile.notification) return;
  notes->push_back(absl::StrCat(profile.provider, " is served with ",
                                NotificationName(test.notification), ": ", test.immediate_failure));
  profile.notification = test.notification;
}

absl::StatusOr<ServedFabrics> TakeProven(const FabricAddresses& addresses, uint64_t window_bytes,
                                         const transport::SelfTestOptions& self_test) {
  std::vector<std::string> providers;
  for (const transport::ProfileRow* row : transport::AutoRows()) {
    providers.emplace_back(row->provider);
  }
  absl::StatusOr<std::vector<FoundFabric>> found = FindFabrics(RequestsFor(providers), addresses);
  if (!found.ok()) return found.status();
  absl::StatusOr<std::vector<transport::SelfTestResult>> tests =
      TryAll(*found, CheckAll(*found, window_bytes), self_test);
  if (!tests.ok()) return tests.status();
  ServedFabrics served;
  std::vector<std::string> reasons;
  for (size_t i = 0; i < found->size(); ++i) {
    FoundFabric& fabric = (*found)[i];
    const absl::Status& status = (*tests)[i].status;
    if (status.ok()) {
      Narrow((*tests)[i], &*fabric.choice, &served.notes);
      served.fabrics.push_back(*std::move(fabric.choice));
      continue;
    }
    const std::string& provider = fabric.request.provider;
    reasons.push_back(absl::StrCat(provider, ": ", status.message()));
    // That this machine has no such fabric is no news.
    if (absl::IsNotFound(status)) continue;
    served.notes.push_back(absl::StrCat(provider, " is not offered: ", status.message()));
    served.unserved.push_back({provider, std::string(status.message())});
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
                                                  uint64_t window_bytes,
                                                  const transport::SelfTestOptions& self_test) {
  const bool automatic =
      providers.empty() ||
      (providers.size() == 1 && (providers[0].empty() || providers[0] == transport::kAutoProvider));
  return automatic ? TakeProven(addresses, window_bytes, self_test)
                   : TakeNamed(providers, addresses, window_bytes);
}

}  // namespace invoker
