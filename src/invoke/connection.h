// How a client gets its session: the bootstrap's steps, the probe of the data path, and the end.

#ifndef INVOKER_SRC_INVOKE_CONNECTION_H_
#define INVOKER_SRC_INVOKE_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/client.h"
#include "src/bootstrap/lease.h"
#include "src/bootstrap/messages.h"
#include "src/invoke/call_driver.h"
#include "src/invoke/client.h"

namespace invoker {

class Connection {
 public:
  // Blocks as Client::Connect does. Any thread.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(absl::string_view server,
                                                          const ClientOptions& options);
  ~Connection();

  // Ends the calls, tells the worker, releases the lease. Blocks for a round trip to the server.
  void Close();

  const bootstrap::WorkerInfo& info() const { return info_; }
  const std::shared_ptr<CallDriver>& driver() const { return driver_; }
  const std::string& downgrade_reason() const { return downgrade_reason_; }
  uint32_t executor() const { return session_.executor; }

 private:
  explicit Connection(const ClientOptions& options) : options_(options) {}

  absl::Status OpenFabric();
  absl::Status OpenSession();
  absl::Status ProvePath();
  absl::Status Probe();
  bool AwaitProbe(Call* call);
  bool BothAuto() const;
  void OnLost(const absl::Status& reason);

  ClientOptions options_;
  std::unique_ptr<bootstrap::BootstrapClient> bootstrap_;
  bootstrap::WorkerInfo info_;
  std::shared_ptr<CallDriver> driver_;
  bootstrap::OpenSessionReply session_;
  std::atomic<uint64_t> handle_{0};  // 0: no session yet
  std::string downgrade_reason_;
  // Last, so that its thread has ended before anything that it may call goes.
  std::unique_ptr<bootstrap::Lease> lease_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECTION_H_
