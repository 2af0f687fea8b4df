// Tells systemd how a service is (sd_notify(3), Type=notify). Does nothing where nobody asks.

#ifndef INVOKER_TOOLS_SERVICE_MANAGER_H_
#define INVOKER_TOOLS_SERVICE_MANAGER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace invoker::tools {

// One thread.
class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them out of the environment:
  // they are not for the programs that this one starts.
  ServiceManager();

  void Ready() { Send("READY=1"); }
  void Stopping() { Send("STOPPING=1"); }
  void Alive() { Send("WATCHDOG=1"); }

  // How often Alive is due; infinite if nobody watches.
  absl::Duration alive_period() const { return alive_period_; }

 private:
  void Send(absl::string_view state) const;

  std::string socket_;  // a path, or "@" and an abstract name; empty: nobody listens
  absl::Duration alive_period_ = absl::InfiniteDuration();
};

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_SERVICE_MANAGER_H_
