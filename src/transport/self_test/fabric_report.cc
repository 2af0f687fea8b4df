#include "src/transport/self_test/fabric_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/transport/self_test/link_facts.h"

namespace invoker::transport {
namespace {

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

// libfabric's names of the flags that are set in `value`.
template <typename Value>
std::vector<std::string> NamesOf(const Value& value, fi_type type) {
  std::vector<std::string> names;
  // fi_tostr takes an untyped pointer, and does not write to what it points to.
  const std::string text = TextOf(fi_tostr(&value, type));
  for (absl::string_view name : absl::StrSplit(text, absl::ByAnyChar(", []"), absl::SkipEmpty())) {
    absl::ConsumePrefix(&name, "FI_");
    // What stands for no flag at all.
    if (name != "ORDER_NONE" && name != "MR_UNSPEC") names.emplace_back(name);
  }
  return names;
}

template <typename Value>
std::string NameOf(const Value& value, fi_type type) {
  const std::string text = TextOf(fi_tostr(&value, type));
  return std::string(absl::StripPrefix(text, "FI_"));
}

std::vector<std::string> WithoutPrefix(std::vector<std::string> names, absl::string_view prefix) {
  for (std::string& name : names) name = std::string(absl::StripPrefix(name, prefix));
  return names;
}

FabricClaims ClaimsOf(const fi_info& info) {
  const fi_domain_attr& domain = *info.domain_attr;
  FabricClaims claims;
  claims.capabilities = NamesOf(info.caps, FI_TYPE_CAPS);
  claims.transmit_order =
      WithoutPrefix(NamesOf(info.tx_attr->msg_order, FI_TYPE_MSG_ORDER), "ORDER_");
  claims.receive_order =
      WithoutPrefix(NamesOf(info.rx_attr->msg_order, FI_TYPE_MSG_ORDER), "ORDER_");
  claims.memory_modes = WithoutPrefix(NamesOf(domain.mr_mode, FI_TYPE_MR_MODE), "MR_");
  claims.modes = NamesOf(info.mode, FI_TYPE_MODE);
  const enum fi_progress progress = DataProgress(domain);
  claims.data_progress =
      std::string(absl::StripPrefix(NameOf(progress, FI_TYPE_PROGRESS), "PROGRESS_"));
  claims.cq_data_bytes = domain.cq_data_size;
  claims.key_bytes = domain.mr_key_size;
  claims.inject_bytes = info.tx_attr->inject_size;
  claims.max_message_bytes = info.ep_attr->max_msg_size;
  claims.transmit_depth = info.tx_attr->size;
  claims.receive_depth = info.rx_attr->size;
  return claims;
}

}  // namespace

FabricReport DescribeFabric(const ListedFabric& listed, absl::Span<const RdmaDevice> devices) {
  const fi_info& info = *listed.choice.info;
  FabricReport report;
  report.provider = TextOf(info.fabric_attr->prov_name);
  const uint32_t version = info.fabric_attr->prov_version;
  report.provider_version = absl::StrCat(FI_MAJOR(version), ".", FI_MINOR(version));
  report.protocol =
      std::string(absl::StripPrefix(NameOf(info.ep_attr->protocol, FI_TYPE_PROTOCOL), "PROTO_"));
  report.protocol_version = info.ep_attr->protocol_version;
  report.fabric = TextOf(info.fabric_attr->name);
  report.domain = TextOf(info.domain_attr->name);
  report.address_format = NameOf(info.addr_format, FI_TYPE_ADDR_FORMAT);
  const IpAddress source = SourceOf(info);
  if (source.scope != IpScope::kNone) {
    report.address = source.text;
    report.interface = InterfaceOf(source.text);
  }
  report.link = FindLinkFacts(info, report.interface, devices);
  report.claims = ClaimsOf(info);
  report.usable = listed.usable;
  report.profile = listed.choice.profile;
  return report;
}

FabricRequest RequestFor(const FabricReport& report) {
  FabricRequest request;
  request.provider = report.provider;
  request.address = report.address.empty() ? report.domain : report.address;
  return request;
}

}  // namespace invoker::transport
