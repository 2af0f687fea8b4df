// The facts that must be equal on both sides of a fabric, as this side has them.

#ifndef INVOKER_SRC_INVOKE_FABRICS_FABRIC_IDENTITY_H_
#define INVOKER_SRC_INVOKE_FABRICS_FABRIC_IDENTITY_H_

#include "src/bootstrap/messages/messages.h"
#include "src/transport/base/libfabric.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker {

// Pure: any thread.
bootstrap::FabricIdentity IdentityOf(const transport::Profile& profile, const fi_info& info);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FABRICS_FABRIC_IDENTITY_H_
