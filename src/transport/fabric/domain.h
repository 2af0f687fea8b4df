// A fabric and one access domain on it. With FI_THREAD_DOMAIN, everything opened on a domain
// belongs to one thread at a time, so every reactor opens its own.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_DOMAIN_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_DOMAIN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/transport/base/libfabric.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {

class Fabric {
 public:
  static absl::StatusOr<Fabric> Open(FabricChoice choice);

  const fi_info& info() const { return *choice_.info; }
  const Profile& profile() const { return choice_.profile; }
  fid_fabric* get() const { return fabric_.get(); }

 private:
  Fabric(FabricChoice choice, FidPtr<fid_fabric> fabric)
      : choice_(std::move(choice)), fabric_(std::move(fabric)) {}

  FabricChoice choice_;
  FidPtr<fid_fabric> fabric_;
};

class Domain {
 public:
  // `fabric` must outlive the domain.
  static absl::StatusOr<Domain> Open(const Fabric& fabric);

  fid_domain* get() const { return domain_.get(); }

 private:
  explicit Domain(FidPtr<fid_domain> domain) : domain_(std::move(domain)) {}

  FidPtr<fid_domain> domain_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_DOMAIN_H_
