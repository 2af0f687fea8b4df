// Ends the process if stopping takes too long: a thread cannot be made to leave a function that
// never returns.

#ifndef INVOKER_TOOLS_STOP_WATCHDOG_H_
#define INVOKER_TOOLS_STOP_WATCHDOG_H_

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::tools {

class StopWatchdog {
 public:
  explicit StopWatchdog(absl::Duration limit)
      : thread_([this, limit] {
          if (stopped_.WaitForNotificationWithTimeout(limit)) return;
          LogError("a function has not returned; ending without it");
          // By the signal's default way, so that fabrics that clean up behind a dying process do
          // so.
          sigset_t set;
          sigemptyset(&set);
          sigaddset(&set, SIGTERM);
          pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
          raise(SIGTERM);
          _exit(kExitFailed);
        }) {}
  ~StopWatchdog() {
    stopped_.Notify();
    thread_.join();
  }

 private:
  absl::Notification stopped_;
  std::thread thread_;
};

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_STOP_WATCHDOG_H_
