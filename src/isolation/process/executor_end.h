// How an executor's process came to its end.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_END_H_
#define INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_END_H_

#include <string>

#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker {

struct ExecutorEnd {
  // kReleased: it was told to stop, and did.
  LeaseEndCause cause = LeaseEndCause::kServer;
  // For people: which function ran, which signal, exit status or limit.
  std::string reason;
  absl::Duration cpu_time;  // that the kernel counted for the process and its children
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_END_H_
