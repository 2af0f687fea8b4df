#include "src/transport/endpoint.h"

#include <utility>

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
  if (code != 0) return ToStatus("fi_enable", code);
  absl::StatusOr<std::string> name = NameOf(raw);
  if (!name.ok()) return name.status();
  return Endpoint(std::move(endpoint), *std::move(name));
}

}  // namespace invoker::transport
