// A client's endpoint that is opened while the worker is still asked for a lease, which takes about
// as long.

#ifndef INVOKER_SRC_INVOKE_CONNECT_ENDPOINT_AHEAD_H_
#define INVOKER_SRC_INVOKE_CONNECT_ENDPOINT_AHEAD_H_

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "src/base/start_thread.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {

class EndpointAhead {
 public:
  using Opened = absl::StatusOr<std::shared_ptr<CallDriver>>;

  // Runs `open` on a thread. If the system has none, there is nothing to take.
  explicit EndpointAhead(std::function<Opened()> open) {
    transport::StartThread(&thread_, [this, open = std::move(open)] {
      opened_ = open();
    }).IgnoreError();
  }
  // Waits for the thread.
  ~EndpointAhead() {
    if (thread_.joinable()) thread_.join();
  }
  EndpointAhead(const EndpointAhead&) = delete;
  EndpointAhead& operator=(const EndpointAhead&) = delete;

  // What has been opened, or why it could not be. Waits for it. The first caller has it; the others
  // open one of their own. Any thread.
  absl::optional<Opened> Take() {
    if (taken_.exchange(true) || !thread_.joinable()) return absl::nullopt;
    thread_.join();
    return std::move(opened_);
  }

 private:
  std::atomic<bool> taken_{false};
  Opened opened_{nullptr};
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_ENDPOINT_AHEAD_H_
