// How the target of a remote write learns that the bytes are there.
//
// A session uses one of these, fixed when it opens and the same in both directions. kAuto is only a
// request: what a session really uses is always one of the other two.

#ifndef INVOKER_SRC_INVOKE_NOTIFICATION_H_
#define INVOKER_SRC_INVOKE_NOTIFICATION_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "invoker/export.h"

namespace invoker {

enum class Notification : uint8_t {
  kAuto = 0,            // write-with-immediate if a probe proves it, else send-after-write
  kWriteImm = 1,        // one fi_writedata: payload and token in one operation
  kSendAfterWrite = 2,  // fi_write, then a send that carries the token
};

// "auto", "write_imm", "send_after_write": the spelling of the --notify flag and of every message.
INVOKER_EXPORT absl::string_view NotificationName(Notification notification);

// Parses NotificationName's spelling. Returns false, and leaves `notification` alone, for anything
// else.
INVOKER_EXPORT bool ParseNotification(absl::string_view text, Notification* notification);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_NOTIFICATION_H_
