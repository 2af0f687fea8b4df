// The client's side of the bootstrap: one gRPC channel to one worker.
//
// Thread-safe; every method blocks until the answer or its timeout. Errors name the server and say
// what to do. Codes: UNAVAILABLE (nobody answers, or the worker is draining), DEADLINE_EXCEEDED,
// INVALID_ARGUMENT (the address or the request), NOT_FOUND (no such lease or session),
// FAILED_PRECONDITION (another release, another fabric, or not an invoker server), or what the
// worker said.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages.h"

namespace invoker::bootstrap {

class ClientChannel;

class BootstrapClient {
 public:
  // `target` is HOST:PORT. Connects, and returns a client only if an invoker server of the same
  // protocol version answers. Never goes through an HTTP proxy: the fabric would not either.
  static absl::StatusOr<std::unique_ptr<BootstrapClient>> Connect(absl::string_view target,
                                                                  absl::Duration timeout);
  ~BootstrapClient();
  BootstrapClient(const BootstrapClient&) = delete;
  BootstrapClient& operator=(const BootstrapClient&) = delete;

  // "HOST:PORT", for messages.
  const std::string& target() const;

  // What the worker told when this client connected.
  const WorkerInfo& worker_info() const { return worker_info_; }

  absl::StatusOr<WorkerInfo> GetWorkerInfo(absl::Duration timeout);
  absl::StatusOr<OpenSessionReply> OpenSession(uint64_t lease, const OpenSessionRequest& request,
                                               absl::Duration timeout);
  // `reason` is for the worker's log; empty: nothing to say.
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle,
                                  transport::Notification notification, absl::string_view reason,
                                  absl::Duration timeout);
  absl::Status CloseSession(uint64_t lease, uint64_t handle, absl::Duration timeout);

 private:
  friend class Lease;
  explicit BootstrapClient(std::shared_ptr<ClientChannel> channel);

  const std::shared_ptr<ClientChannel> channel_;  // leases share it
  WorkerInfo worker_info_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_H_
