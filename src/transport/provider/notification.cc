#include "invoker/notification.h"

namespace invoker {

absl::string_view NotificationName(Notification notification) {
  switch (notification) {
    case Notification::kAuto:
      return "auto";
    case Notification::kWriteImm:
      return "write_imm";
    case Notification::kSendAfterWrite:
      return "send_after_write";
  }
  return "unknown";
}

bool ParseNotification(absl::string_view text, Notification* notification) {
  for (Notification candidate :
       {Notification::kAuto, Notification::kWriteImm, Notification::kSendAfterWrite}) {
    if (text == NotificationName(candidate)) {
      *notification = candidate;
      return true;
    }
  }
  return false;
}

}  // namespace invoker
