// A client's connection to one executor: a lease, which may be shared with others, and the session
// on the best fabric that works.

#ifndef INVOKER_SRC_INVOKE_CONNECT_CONNECTION_H_
#define INVOKER_SRC_INVOKE_CONNECT_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "invoker/client_options.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/connect/client_lease.h"
#include "src/invoke/connect/fabric_session.h"
#include "src/invoke/connect/session_watch.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {

class Connection {
 public:
  // With one of the executors that the worker shares among its clients, under a lease that other
  // clients of this process may share (SharedLeases). Blocks as Client::Connect does. Any thread.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(absl::string_view server,
                                                          const ClientOptions& options);
  // With the lease's executor of that number. Several at the same time, for one lease, if
  // options.times is nullptr.
  static absl::StatusOr<std::unique_ptr<Connection>> OpenUnder(std::shared_ptr<ClientLease> lease,
                                                               uint32_t executor,
                                                               const ClientOptions& options);
  ~Connection();

  // Ends the calls, tells the worker, and lets go of the lease. Blocks for a round trip to the
  // server.
  void Close();
  // Ends the calls. Does not block: the lease's end is to tell the worker.
  void EndCalls() { session_->EndCalls(); }

  // SessionWatch's.
  void set_on_ended(std::function<void(const absl::Status&)> on_ended) {
    watch_->set_on_ended(std::move(on_ended));
  }

  // BootstrapClient's methods, for the session. Registering is given a second at least,
  // and connect_timeout at most.
  absl::StatusOr<uint16_t> RegisterWindow(const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable, absl::Duration timeout) {
    return session_->RegisterWindow(window, readable, writable, timeout);
  }
  absl::Status ForgetWindow(uint16_t number, absl::Duration timeout) {
    return session_->ForgetWindow(number, timeout);
  }

  const std::shared_ptr<CallDriver>& driver() const { return session_->driver(); }
  const std::string& server() const { return contact_->target(); }
  const std::string& provider() const { return driver()->reactor().profile().provider; }
  const std::string& downgrade_reason() const { return session_->downgrade_reason(); }
  // Client::fabric_choice.
  const std::string& fabric_choice() const { return fabric_choice_; }
  uint32_t executor() const { return session_->executor(); }
  // Whether the worker leases executors for Python functions.
  bool leases_python() const { return contact_->info().capacity.python; }

  // What the session can call, by id. Any thread.
  std::vector<bootstrap::FunctionInfo> functions() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What it can call after code has been loaded into the executor: ids stay, so of answers that
  // overtake one another the longest is the latest.
  void AddFunctions(std::vector<bootstrap::FunctionInfo> functions) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Connection(std::shared_ptr<ClientLease> lease, const ClientOptions& options);

  ClientOptions options_;
  std::shared_ptr<ClientLease> lease_;  // nullptr once closed
  // Outlives the lease here, since sessions refer to it.
  const std::shared_ptr<const WorkerContact> contact_;
  const std::shared_ptr<SessionWatch> watch_;
  std::unique_ptr<FabricSession> session_;
  std::string fabric_choice_;
  mutable absl::Mutex mutex_;
  std::vector<bootstrap::FunctionInfo> functions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_CONNECTION_H_
