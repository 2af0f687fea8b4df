// One lease's stream, on the server.
//
// gRPC calls it from its own threads, the table from any; at most one write is under way, and
// Finish is called only when none is, which is what keeps the object alive for a write: OnDone
// comes after Finish. The reactor owns itself until OnDone.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_LEASE_REACTOR_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_LEASE_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/bootstrap.pb.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/bootstrap/messages/messages.h"
#include "src/bootstrap/service/session_tokens.h"
#include "src/security/access_control.h"

namespace invoker::bootstrap {

struct LeaseTimes {
  absl::Duration heartbeat_interval;  // asked of every client
  absl::Duration expiry;              // a lease without a heartbeat for this long is over
};

class LeaseReactor final : public grpc::ServerBidiReactor<v1::LeaseRequest, v1::LeaseEvent>,
                           public LeaseStream {
 public:
  // The tokens outlive it, as the table does; `access` may be nullptr.
  static LeaseReactor* Start(grpc::CallbackServerContext* context, const LeaseTimes& times,
                             LeaseTable* table, SessionTokens* tokens,
                             security::AccessControl* access);

  void SendQueued(uint32_t ahead) override;
  void SendGranted(const LeaseTerms& terms) override;
  void SendDraining(absl::string_view reason) override;
  void SendClosing() override;
  void SendSessionClosed(uint64_t handle, absl::string_view reason) override;
  void SendEnded(const LeaseEnd& end) override;
  void End(const absl::Status& status) override;
  void Cancel() override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

 private:
  LeaseReactor(grpc::CallbackServerContext* context, const LeaseTimes& times, LeaseTable* table,
               SessionTokens* tokens)
      : times_(times), table_(table), tokens_(tokens), context_(context) {}

  void Begin(std::shared_ptr<LeaseStream> self, security::AccessControl* access);
  // What the client may have of what it has asked for.
  absl::StatusOr<LeaseTerms> TermsOf(const v1::LeaseTerms& message) const;
  void FillTokens(uint32_t count, v1::LeaseEvent::SessionTokens* message);
  // Asks for the next request, unless the stream is ending.
  void Read();
  void HandleRequest(const v1::LeaseRequest& request);
  void Send(v1::LeaseEvent event);
  // Starts the next write or the end, if nothing is under way. Starts it without the lock: gRPC may
  // call back from inside.
  void Advance(std::unique_lock<std::mutex> lock);

  const LeaseTimes times_;
  LeaseTable* const table_;
  SessionTokens* const tokens_;
  security::Caller caller_;
  uint64_t lease_ = 0;
  std::shared_ptr<LeaseReactor> self_;

  std::mutex context_mutex_;
  grpc::CallbackServerContext* context_;  // null after OnDone

  v1::LeaseRequest request_;     // the read under way
  bool asked_ = false;           // the client has said its terms; used between reads
  absl::Duration peer_timeout_;  // the client's; set before the table is asked for the lease
  std::mutex mutex_;
  v1::LeaseEvent outgoing_;  // the write under way
  std::deque<v1::LeaseEvent> events_;
  std::optional<uint64_t> acknowledge_;
  uint32_t tokens_wanted_ = 0;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
  bool broken_ = false;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_LEASE_REACTOR_H_
