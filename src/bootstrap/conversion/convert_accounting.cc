#include "src/bootstrap/conversion/convert_accounting.h"

#include "absl/strings/str_cat.h"
#include "src/bootstrap/conversion/convert.h"

namespace invoker::bootstrap {
namespace {

constexpr uint64_t kCounterBytes = sizeof(uint64_t);

absl::StatusOr<std::string> AddressFrom(const v1::EndpointAddress& message) {
  const std::string& address = message.address();
  if (address.empty() || address.size() > kMaxAddressBytes || message.length() != address.size()) {
    return absl::InvalidArgumentError(absl::StrCat("endpoint_address: of ", address.size(),
                                                   " bytes, said to be ", message.length(),
                                                   "; an address has 1 to ", kMaxAddressBytes));
  }
  return address;
}

void SetAddress(const std::string& address, v1::EndpointAddress* message) {
  message->set_length(static_cast<uint32_t>(address.size()));
  message->set_address(address);
}

}  // namespace

v1::ContributeRequest ToProto(const Contribution& contribution) {
  v1::ContributeRequest message;
  message.set_contributor(contribution.contributor);
  *message.mutable_fabric() = ToProto(contribution.fabric);
  SetAddress(contribution.endpoint_address, message.mutable_endpoint_address());
  for (const std::string& tenant : contribution.tenants) message.add_tenants(tenant);
  return message;
}

absl::StatusOr<Contribution> FromProto(const v1::ContributeRequest& message) {
  absl::StatusOr<std::string> address = AddressFrom(message.endpoint_address());
  if (!address.ok()) return address.status();
  if (static_cast<size_t>(message.tenants_size()) > kMaxContributedTenants) {
    return absl::InvalidArgumentError(absl::StrCat("tenants: ", message.tenants_size(),
                                                   " of them, but ", kMaxContributedTenants,
                                                   " are the most"));
  }
  Contribution contribution;
  contribution.contributor = message.contributor();
  contribution.fabric = FromProto(message.fabric());
  contribution.fabric.provider = PrintableText(contribution.fabric.provider, kMaxReasonBytes);
  contribution.endpoint_address = *std::move(address);
  for (const std::string& tenant : message.tenants()) {
    contribution.tenants.push_back(PrintableText(tenant, kMaxTenantBytes));
  }
  return contribution;
}

v1::ContributeReply ToProto(const ContributionTarget& target) {
  v1::ContributeReply message;
  message.set_accumulator(target.accumulator);
  SetAddress(target.endpoint_address, message.mutable_endpoint_address());
  message.set_add_method(target.add_method);
  message.mutable_counters()->set_base(target.base);
  message.mutable_counters()->set_key(target.key);
  message.mutable_counters()->set_length(target.counters * kCounterBytes);
  for (const uint32_t first : target.first_counters) message.add_first_counters(first);
  return message;
}

absl::StatusOr<ContributionTarget> FromProto(const v1::ContributeReply& message, size_t tenants) {
  absl::StatusOr<std::string> address = AddressFrom(message.endpoint_address());
  if (!address.ok()) return address.status();
  const uint64_t counters = message.counters().length() / kCounterBytes;
  if (counters > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("counters: ", counters, " of them"));
  }
  if (message.add_method() != 1 && message.add_method() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("add_method: ", message.add_method(), " is none that this release knows"));
  }
  if (static_cast<size_t>(message.first_counters_size()) != tenants) {
    return absl::InvalidArgumentError(absl::StrCat(
        "first_counters: ", message.first_counters_size(), " for ", tenants, " tenants"));
  }
  ContributionTarget target;
  target.accumulator = message.accumulator();
  target.endpoint_address = *std::move(address);
  target.add_method = message.add_method();
  target.base = message.counters().base();
  target.key = message.counters().key();
  target.counters = static_cast<uint32_t>(counters);
  for (const uint32_t first : message.first_counters()) {
    if (uint64_t{first} + kCountersPerRow > counters) {
      return absl::InvalidArgumentError(
          absl::StrCat("first_counters: ", first, ", but there are ", counters, " counters"));
    }
    target.first_counters.push_back(first);
  }
  return target;
}

}  // namespace invoker::bootstrap
