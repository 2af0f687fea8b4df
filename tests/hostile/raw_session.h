// A legal session with its insides open: what the bootstrap said, and both windows. Driven turn by
// turn by its one thread.

#ifndef INVOKER_TESTS_HOSTILE_RAW_SESSION_H_
#define INVOKER_TESTS_HOSTILE_RAW_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/invoke/session/client_session.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::hostile {

// An endpoint of ours on the fabric, on loopback where it is addressed by IP.
absl::StatusOr<std::unique_ptr<transport::Reactor>> OpenReactor(const std::string& provider);

class RawSession {
 public:
  // The session has what the server wants of data_auth. By default it shares an executor.
  static absl::StatusOr<std::unique_ptr<RawSession>> Open(const std::string& server,
                                                          const std::string& provider,
                                                          const LeaseTerms& terms = {});
  ~RawSession();

  // By name. 0xffff if the worker has none.
  uint16_t FunctionId(absl::string_view name) const;

  // Starts a call; nullptr if there is no room. Post it by Poll.
  Call* Start(uint16_t function, absl::string_view input, absl::Duration timeout,
              uint8_t flags = 0);
  // One turn.
  void Poll();
  // A whole call.
  absl::StatusOr<std::string> Run(uint16_t function, absl::string_view input,
                                  absl::Duration timeout, uint8_t flags = 0);
  // Waits for the call's end and gives it back.
  absl::StatusOr<std::string> Await(Call* call);

  // Set by a signal's handler: calls that are waited for end as CANCELLED.
  static std::atomic<bool> interrupted;

  ClientSession& session() { return *session_; }
  bootstrap::BootstrapClient& bootstrap() { return *bootstrap_; }
  uint64_t lease() const { return lease_->id(); }
  const bootstrap::OpenSessionRequest& request() const { return request_; }
  const bootstrap::OpenSessionReply& reply() const { return reply_; }

 private:
  RawSession() = default;

  std::unique_ptr<bootstrap::BootstrapClient> bootstrap_;
  std::unique_ptr<bootstrap::Lease> lease_;
  std::unique_ptr<transport::Reactor> reactor_;
  std::unique_ptr<ClientSession> session_;
  bootstrap::OpenSessionRequest request_;
  bootstrap::OpenSessionReply reply_;
};

}  // namespace invoker::hostile

#endif  // INVOKER_TESTS_HOSTILE_RAW_SESSION_H_
