#include "src/transport/fabric/domain.h"

#include <utility>

#include "src/transport/base/signal_guard.h"
#include "src/transport/base/status.h"

namespace invoker::transport {

absl::StatusOr<Fabric> Fabric::Open(FabricChoice choice) {
  const SignalGuard guard;
  fid_fabric* raw = nullptr;
  const int code = fi_fabric(choice.info->fabric_attr, &raw, nullptr);
  if (code != 0) return ToStatus("fi_fabric", code);
  return Fabric(std::move(choice), FidPtr<fid_fabric>(raw));
}

absl::StatusOr<Domain> Domain::Open(const Fabric& fabric) {
  const SignalGuard guard;
  fid_domain* raw = nullptr;
  const int code = fi_domain(fabric.get(), const_cast<fi_info*>(&fabric.info()), &raw, nullptr);
  if (code != 0) return ToStatus("fi_domain", code);
  return Domain(FidPtr<fid_domain>(raw));
}

}  // namespace invoker::transport
