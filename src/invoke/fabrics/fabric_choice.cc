#include "src/invoke/fabrics/fabric_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/bootstrap/messages/compatibility.h"

namespace invoker {
namespace {

using bootstrap::FabricOffer;

absl::Status OtherHost(const FabricOffer& offer) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the worker offers provider \"", offer.identity.provider,
      "\", which works within one host only, and this client is on another one; start the server "
      "with another --provider"));
}

// Ranks count from 1, so that 0 wraps to the end.
uint32_t Place(const LocalFabric& fabric) { return fabric.auto_rank - 1; }

}  // namespace

FabricPlan ChooseFabrics(absl::Span<const FabricOffer> offers, absl::Span<const LocalFabric> local,
                         bool same_host) {
  FabricPlan plan;
  for (size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].same_host_only && !same_host) {
      plan.passed_over.push_back({i, OtherHost(offers[i]), "the worker is on another host"});
    } else if (!local[i].status.ok()) {
      plan.passed_over.push_back(
          {i, local[i].status, absl::IsNotFound(local[i].status) ? "this host has none" : ""});
    } else if (std::string differences =
                   bootstrap::DescribeDifferences(offers[i].identity, local[i].identity, same_host);
               !differences.empty()) {
      plan.passed_over.push_back(
          {i, bootstrap::CheckSameFabric(offers[i].identity, local[i].identity, same_host),
           absl::StrCat("the two sides differ in ", differences)});
    } else {
      plan.order.push_back(i);
    }
  }
  std::stable_sort(plan.order.begin(), plan.order.end(), [&local](size_t left, size_t right) {
    return Place(local[left]) < Place(local[right]);
  });
  return plan;
}

std::string ExplainChoice(absl::Span<const FabricOffer> offers, const FabricPlan& plan,
                          size_t chosen, absl::Span<const FabricFailure> failed, bool named) {
  const auto name = [offers](size_t offer) { return offers[offer].identity.provider; };
  std::vector<std::string> parts;
  for (const FabricFailure& failure : failed) {
    parts.push_back(absl::StrCat(name(failure.offer), " was tried ",
                                 parts.empty() ? "first" : "next", " and failed (",
                                 failure.status.message(), ")"));
  }
  if (parts.empty()) {
    if (named) {
      parts.push_back("asked for by name");
    } else if (offers.size() == 1) {
      parts.push_back("the only one that the worker offers");
    } else if (offers[chosen].same_host_only) {
      parts.push_back("same host");
    } else {
      parts.push_back("the best that both sides have");
    }
  }
  for (const FabricFailure& other : plan.passed_over) {
    parts.push_back(
        absl::StrCat("not ", name(other.offer), ", since ",
                     other.brief.empty() ? std::string(other.status.message()) : other.brief));
  }
  const auto here = std::find(plan.order.begin(), plan.order.end(), chosen);
  std::vector<std::string> rest;
  for (auto next = here; next != plan.order.end(); ++next) {
    if (next != here) rest.push_back(name(*next));
  }
  if (!rest.empty()) {
    parts.push_back(absl::StrCat("the worker also offers ", absl::StrJoin(rest, ", ")));
  }
  return absl::StrCat(name(chosen), ": ", absl::StrJoin(parts, "; "));
}

absl::Status ExplainFailure(absl::string_view worker, absl::Span<const FabricOffer> offers,
                            const FabricPlan& plan, absl::Span<const FabricFailure> failed) {
  std::vector<FabricFailure> all(failed.begin(), failed.end());
  all.insert(all.end(), plan.passed_over.begin(), plan.passed_over.end());
  if (all.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker at ", worker, " offers no fabric"));
  }
  if (all.size() == 1) return all.front().status;
  absl::StatusCode code = all.front().status.code();
  std::vector<std::string> parts;
  for (const FabricFailure& failure : all) {
    if (failure.status.code() != code) code = absl::StatusCode::kUnavailable;
    parts.push_back(
        absl::StrCat(offers[failure.offer].identity.provider, ": ", failure.status.message()));
  }
  return absl::Status(code, absl::StrCat("none of the fabrics of the worker at ", worker,
                                         " can be used. ", absl::StrJoin(parts, "; ")));
}

}  // namespace invoker
