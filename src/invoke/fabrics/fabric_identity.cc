#include "src/invoke/fabrics/fabric_identity.h"

namespace invoker {

bootstrap::FabricIdentity IdentityOf(const transport::Profile& profile, const fi_info& info) {
  bootstrap::FabricIdentity identity;
  identity.provider = profile.provider;
  identity.protocol = info.ep_attr->protocol;
  identity.protocol_version = info.ep_attr->protocol_version;
  identity.address_format = info.addr_format;
  if (profile.one_release_per_host) identity.shared_layout = info.fabric_attr->prov_version;
  return identity;
}

}  // namespace invoker
