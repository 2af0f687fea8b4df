// One session over one fabric, from the client's side: its endpoint, the bootstrap's steps and the
// proof of the data path, in both notifications if need be.

#ifndef INVOKER_SRC_INVOKE_CONNECT_FABRIC_SESSION_H_
#define INVOKER_SRC_INVOKE_CONNECT_FABRIC_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "invoker/client_options.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/connect/session_watch.h"
#include "src/invoke/session/driver/call_driver.h"
#include "src/transport/discovery/discovery.h"

namespace invoker {

class FabricSession {
 public:
  // What every session of a connection has in common. All of it outlives the session.
  struct Setting {
    bootstrap::BootstrapClient* bootstrap = nullptr;
    uint64_t lease = 0;
    uint32_t executor = 0;  // which one of the lease's own, if it has some
    const bootstrap::WorkerInfo* info = nullptr;
    const ClientOptions* options = nullptr;
    SessionWatch* watch = nullptr;
  };

  struct Opened {
    std::unique_ptr<FabricSession> session;  // nullptr if it could not be opened
    absl::Status status;                     // why not, in that case
    bool may_be_the_fabric = true;           // whether another one might do better
  };

  // Opens a session and proves it. Blocks: connect_timeout for each step of the bootstrap, and
  // probe_timeout for each notification that is tried, longer only while the worker's executor runs
  // a function. Any thread.
  static Opened Open(const Setting& setting, const bootstrap::FabricOffer& offer,
                     const transport::FabricChoice& choice);

  // Closes as Close does.
  ~FabricSession();

  // Ends the calls and tells the worker. Blocks for a round trip to the server. Again: does
  // nothing.
  // False: the worker has not said that it has closed its half, which may last as long as the
  // lease.
  bool Close();

  // BootstrapClient's methods. Block for a round trip to the server.
  absl::StatusOr<uint16_t> RegisterWindow(const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable, absl::Duration timeout);
  absl::Status ForgetWindow(uint16_t number, absl::Duration timeout);

  const std::shared_ptr<CallDriver>& driver() const { return driver_; }
  const std::string& downgrade_reason() const { return downgrade_reason_; }
  uint32_t executor() const { return reply_.executor; }
  // What it can call, by id.
  const std::vector<bootstrap::FunctionInfo>& functions() const { return reply_.functions; }

  // Like Close, but the worker is not told, since the lease's end tells it. Does not block.
  void EndCalls();

 private:
  FabricSession(const Setting& setting, const bootstrap::FabricOffer& offer)
      : setting_(setting), offer_(offer) {}

  absl::Status OpenEndpoint(const transport::FabricChoice& choice);
  // A downgrade's reason, if the worker has not heard of it yet.
  absl::Status OpenSession(Notification wanted, absl::string_view downgrade_reason);
  absl::Status Prove();
  absl::Status Probe();
  bool BothAuto() const;
  const ClientOptions& options() const { return *setting_.options; }

  const Setting setting_;
  const bootstrap::FabricOffer& offer_;
  std::shared_ptr<CallDriver> driver_;
  bootstrap::OpenSessionReply reply_;
  std::string downgrade_reason_;
  absl::Status probe_failure_;  // the first probe's
  bool switched_ = false;       // to send-after-write, after a lost probe
  bool busy_ = false;           // a probe found the executor running a long function
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_FABRIC_SESSION_H_
