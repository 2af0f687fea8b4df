// Which notification a session uses, from what both sides want.

#ifndef INVOKER_SRC_INVOKE_FABRICS_NEGOTIATION_H_
#define INVOKER_SRC_INVOKE_FABRICS_NEGOTIATION_H_

#include "absl/status/statusor.h"
#include "invoker/notification.h"

namespace invoker {

// What the first probe is to use: never kAuto. FAILED_PRECONDITION if the sides insist on different
// ones, or on one that the fabric does not have (`best` is the strongest that its profile claims).
absl::StatusOr<Notification> NegotiateNotification(Notification worker, Notification client,
                                                   Notification best);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FABRICS_NEGOTIATION_H_
