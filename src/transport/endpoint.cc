#include "src/transport/endpoint.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/transport/rdma_device.h"
#include "src/transport/status.h"

namespace invoker::transport {
namespace {

absl::StatusOr<std::string> NameOf(fid_ep* endpoint) {
  size_t length = 0;
  int code = fi_getname(&endpoint->fid, nullptr, &length);
  if (code != -FI_ETOOSMALL && code != 0) return ToStatus("fi_getname", code);
  std::string name(length, '\0');
  code = fi_getname(&endpoint->fid, name.data(), &length);
  if (code != 0) return ToStatus("fi_getname", code);
  name.resize(length);
  return name;
}

// libfabric says no more than "Invalid argument" where a device's queues are too small.
absl::Status NotEnabled(const fi_info& info, int code) {
  const absl::Status status = ToStatus("fi_enable", code);
  const char* device = info.domain_attr->name;
  const std::string why = device == nullptr ? "" : WhyQueueDoesNotFit(std::string(device));
  return why.empty() ? status
                     : absl::Status(status.code(), absl::StrCat(status.message(), ": ", why));
}

}  // namespace

absl::StatusOr<Endpoint> Endpoint::Open(const Fabric& fabric, const Domain& domain,
                                        const CompletionQueue& cq, const AddressVector& av) {
  fid_ep* raw = nullptr;
  int code = fi_endpoint(domain.get(), const_cast<fi_info*>(&fabric.info()), &raw, nullptr);
  if (code != 0) return ToStatus("fi_endpoint", code);
  FidPtr<fid_ep> endpoint(raw);
  code = fi_ep_bind(raw, &av.get()->fid, 0);
  if (code != 0) return ToStatus("fi_ep_bind of the address vector", code);
  code = fi_ep_bind(raw, &cq.get()->fid, FI_TRANSMIT | FI_RECV);
  if (code != 0) return ToStatus("fi_ep_bind of the completion queue", code);
  code = fi_enable(raw);
  if (code != 0) return NotEnabled(fabric.info(), code);
  absl::StatusOr<std::string> name = NameOf(raw);
  if (!name.ok()) return name.status();
  return Endpoint(std::move(endpoint), *std::move(name));
}

}  // namespace invoker::transport
