// A worker as a client finds it: its bootstrap, and which of its fabrics to try, in which order.
//
// Found once, and then used for every session that the client opens there, by several threads at
// the same time if need be.

#ifndef INVOKER_SRC_INVOKE_CONNECT_WORKER_CONTACT_H_
#define INVOKER_SRC_INVOKE_CONNECT_WORKER_CONTACT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "invoker/client_options.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/connect/fabric_session.h"
#include "src/invoke/connect/session_watch.h"
#include "src/invoke/fabrics/fabric_choice.h"
#include "src/invoke/fabrics/fabric_finder.h"

namespace invoker {

class WorkerContact {
 public:
  // Asks the worker what it offers and looks for that on this machine. Blocks: connect_timeout, and
  // some milliseconds for each fabric. FAILED_PRECONDITION if the worker does not offer the
  // provider that the options name.
  static absl::StatusOr<std::shared_ptr<const WorkerContact>> Find(absl::string_view server,
                                                                   const ClientOptions& options);
  WorkerContact(const WorkerContact&) = delete;
  WorkerContact& operator=(const WorkerContact&) = delete;

  bootstrap::BootstrapClient* bootstrap() const { return bootstrap_.get(); }
  // "HOST:PORT", for messages.
  const std::string& target() const { return bootstrap_->target(); }
  const bootstrap::WorkerInfo& info() const { return info_; }

  // OK, or why none of its fabrics can be tried.
  absl::Status Usable() const;

  struct Opened {
    std::unique_ptr<FabricSession> session;
    std::string fabric_choice;  // Client::fabric_choice
  };

  // Opens a session with one executor of the lease (0 where the lease has none of its own), on the
  // first fabric that works. Blocks as FabricSession::Open does, for each fabric. The contact, the
  // watch and the options outlive the session. Any thread.
  absl::StatusOr<Opened> OpenSession(uint64_t lease, uint32_t executor, SessionWatch* watch,
                                     const ClientOptions* options) const;

 private:
  explicit WorkerContact(std::unique_ptr<bootstrap::BootstrapClient> bootstrap);

  absl::Status KeepNamedOffer(const std::string& provider);
  absl::Status FindFabricsHere(const ClientOptions& options);

  const std::unique_ptr<bootstrap::BootstrapClient> bootstrap_;
  bootstrap::WorkerInfo info_;
  bool named_ = false;              // the user left no choice
  std::vector<FoundFabric> found_;  // one for each of info_.fabrics
  FabricPlan plan_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_WORKER_CONTACT_H_
