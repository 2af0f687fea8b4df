// A client's connection to a worker: the bootstrap, one lease, and the session on the best fabric
// that works.

#ifndef INVOKER_SRC_INVOKE_CONNECTION_H_
#define INVOKER_SRC_INVOKE_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/client.h"
#include "src/bootstrap/lease.h"
#include "src/bootstrap/messages.h"
#include "src/invoke/call_driver.h"
#include "src/invoke/client.h"
#include "src/invoke/fabric_finder.h"
#include "src/invoke/fabric_session.h"
#include "src/invoke/session_watch.h"

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
  const std::shared_ptr<CallDriver>& driver() const { return session_->driver(); }
  const std::string& downgrade_reason() const { return session_->downgrade_reason(); }
  // Client::fabric_choice.
  const std::string& fabric_choice() const { return fabric_choice_; }
  uint32_t executor() const { return session_->executor(); }

 private:
  Connection(const ClientOptions& options, std::unique_ptr<bootstrap::BootstrapClient> bootstrap);

  bool named() const;
  absl::Status KeepNamedOffer();
  absl::StatusOr<std::vector<FoundFabric>> FindOffers() const;
  absl::Status AcquireLease();
  absl::Status OpenBest();

  ClientOptions options_;
  const std::unique_ptr<bootstrap::BootstrapClient> bootstrap_;
  bootstrap::WorkerInfo info_;
  SessionWatch watch_;
  std::unique_ptr<FabricSession> session_;
  std::string fabric_choice_;
  // Last, so that its thread has ended before anything that it may call goes.
  std::unique_ptr<bootstrap::Lease> lease_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECTION_H_
