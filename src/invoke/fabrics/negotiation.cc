#include "src/invoke/fabrics/negotiation.h"

#include "absl/strings/str_cat.h"

namespace invoker {

absl::StatusOr<Notification> NegotiateNotification(Notification worker, Notification client,
                                                   Notification best) {
  if (worker != Notification::kAuto && client != Notification::kAuto && worker != client) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker's --notify is ", NotificationName(worker),
                     "; the client asks for ", NotificationName(client),
                     ", since its own says so or its libfabric has nothing better on this fabric; "
                     "let the worker's be auto"));
  }
  const Notification wanted = worker != Notification::kAuto ? worker : client;
  if (wanted == Notification::kAuto) return best;
  if (wanted == Notification::kWriteImm && best != Notification::kWriteImm) {
    return absl::FailedPreconditionError(absl::StrCat("--notify=", NotificationName(wanted),
                                                      " was asked for, but the fabric only has ",
                                                      NotificationName(best)));
  }
  return wanted;
}

}  // namespace invoker
