#include "src/invoke/fabrics/offered_fabrics.h"

#include <utility>

#include "src/invoke/fabrics/fabric_identity.h"
#include "src/transport/discovery/discovery.h"

namespace invoker {

absl::StatusOr<OfferedFabrics> FindOfferedFabrics(absl::Span<const bootstrap::FabricOffer> offers,
                                                  const FabricAddresses& addresses) {
  std::vector<transport::FabricRequest> wanted;
  for (const bootstrap::FabricOffer& offer : offers) {
    transport::FabricRequest request;
    request.provider = offer.identity.provider;
    request.peer_address = offer.source_address;
    request.peer_address_format = offer.identity.address_format;
    wanted.push_back(std::move(request));
  }
  absl::StatusOr<std::vector<FoundFabric>> found = FindFabrics(std::move(wanted), addresses);
  if (!found.ok()) return found.status();
  OfferedFabrics fabrics;
  fabrics.found = *std::move(found);
  for (const FoundFabric& fabric : fabrics.found) {
    LocalFabric& here = fabrics.local.emplace_back();
    here.status = fabric.choice.status();
    if (!here.status.ok()) continue;
    here.identity = IdentityOf(fabric.choice->profile, *fabric.choice->info);
    here.auto_rank = fabric.choice->profile.auto_rank;
  }
  return fabrics;
}

}  // namespace invoker
