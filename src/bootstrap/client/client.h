// The client's side of the bootstrap: one gRPC channel to one worker.
//
// Thread-safe; every method blocks until the answer or its timeout. Errors name the server and say
// what to do. Codes: UNAVAILABLE (nobody answers, or the worker is draining), DEADLINE_EXCEEDED,
// INVALID_ARGUMENT (the address or the request), NOT_FOUND (no such lease or session),
// FAILED_PRECONDITION (another release, another fabric, or not an invoker server), or what the
// worker said.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "src/bootstrap/messages/messages.h"
#include "src/bootstrap/messages/worker_status.h"

namespace invoker::bootstrap {

class ClientChannel;

class BootstrapClient {
 public:
  // `target` is HOST:PORT. Connects, and returns a client only if an invoker server of the same
  // protocol version answers. If the connection fails though something accepts connections there,
  // a second one is tried: gRPC 1.51 may take one that is being made for one that failed, because
  // it looks at connect's errno after other calls. Never goes through an HTTP proxy: the fabric
  // would not either. UNAUTHENTICATED: one side does not accept the other's certificate, or the
  // server wants a token.
  static absl::StatusOr<std::unique_ptr<BootstrapClient>> Connect(
      absl::string_view target, absl::Duration timeout, const ClientCredentials& credentials = {});
  ~BootstrapClient();
  BootstrapClient(const BootstrapClient&) = delete;
  BootstrapClient& operator=(const BootstrapClient&) = delete;

  // "HOST:PORT", for messages.
  const std::string& target() const;

  // What the worker told when this client connected.
  const WorkerInfo& worker_info() const { return worker_info_; }

  absl::StatusOr<WorkerInfo> GetWorkerInfo(absl::Duration timeout);
  // Takes a session token of the lease's, which must be held over this client.
  absl::StatusOr<OpenSessionReply> OpenSession(uint64_t lease, const OpenSessionRequest& request,
                                               absl::Duration timeout);
  // `reason` is for the worker's log; empty: nothing to say.
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason, absl::Duration timeout);
  // What has become of a request that was written into the session's window.
  absl::StatusOr<RequestState> FindRequest(uint64_t lease, uint64_t handle, uint64_t sequence,
                                           absl::Duration timeout);
  absl::Status CloseSession(uint64_t lease, uint64_t handle, absl::Duration timeout);

  // Gives the session's executor access to memory of this process; returns its number.
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                          const WindowDescriptor& window, bool readable,
                                          bool writable, absl::Duration timeout);
  // When it returns OK, the executor uses the memory no more.
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number,
                            absl::Duration timeout);

  // Sends a file to the worker, for its executors to load; `sha256` is that of its bytes. True if
  // the worker had it already. Errors are the service Code's.
  absl::StatusOr<bool> Upload(uint64_t lease, absl::string_view sha256, absl::string_view bytes,
                              absl::Duration timeout);
  // Loads such a file into every executor of the lease; `name` as in LoadRequest. NOT_FOUND if the
  // worker has it no more. Returns all functions of these executors, by id.
  absl::StatusOr<std::vector<FunctionInfo>> Load(uint64_t lease, absl::string_view sha256,
                                                 CodeKind kind, absl::string_view name,
                                                 absl::Duration timeout);

  // The usage of one tenant, or of all tenants if the name is empty; open leases first.
  absl::StatusOr<std::vector<UsageRecord>> GetUsage(absl::string_view tenant,
                                                    absl::Duration timeout);
  // What peers have sent to the worker over its fabrics and was dropped, by reason.
  absl::StatusOr<std::vector<DropCount>> GetDropped(absl::Duration timeout);
  // `number` is UsageRecord::lease.
  absl::Status EndLease(uint64_t number, absl::Duration timeout);
  // The server begins to end.
  absl::Status Drain(absl::Duration timeout);
  // What the worker does and has.
  absl::StatusOr<ServerStatus> GetStatus(absl::Duration timeout);
  // What the lease has used so far. NOT_FOUND if it is not open any more.
  absl::StatusOr<ResourceUsage> GetLeaseUsage(uint64_t lease, absl::Duration timeout);
  // FAILED_PRECONDITION if the server takes no other servers' usage.
  absl::StatusOr<ContributionTarget> Contribute(const Contribution& contribution,
                                                absl::Duration timeout);

 private:
  friend class Lease;
  explicit BootstrapClient(std::shared_ptr<ClientChannel> channel);

  const std::shared_ptr<ClientChannel> channel_;  // leases share it
  WorkerInfo worker_info_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_H_
