// What BootstrapClient and Lease share: the way to one server, with the credentials to show there,
// and the requests that are under way on it.
//
// Certificates and the token are read again when their files have changed; where that fails, those
// from before go on. Any thread.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_CHANNEL_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "src/bootstrap/client/session_token_pool.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/security/certificates.h"
#include "src/security/watched_file.h"

// gRPC's headers cost ten seconds a file: those who need more than the names include them.
namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace invoker::bootstrap {

class ClientChannel {
 public:
  // Connects at the first call. INVALID_ARGUMENT, NOT_FOUND or FAILED_PRECONDITION if the
  // credentials cannot be used, or would have to be sent to another machine in plaintext.
  static absl::StatusOr<std::shared_ptr<ClientChannel>> Make(const HostPort& address,
                                                             const ClientCredentials& credentials);

  const std::string& name() const { return name_; }  // "HOST:PORT"
  // For a new call; one that is under way keeps its own.
  std::shared_ptr<grpc::Channel> channel() const ABSL_LOCKS_EXCLUDED(mutex_);
  // New calls go over a connection of their own, at once: gRPC would wait after one that failed.
  void Reconnect() ABSL_LOCKS_EXCLUDED(mutex_);
  // Before a call: puts the token into it.
  void Authorize(grpc::ClientContext* context) const ABSL_LOCKS_EXCLUDED(mutex_);

  // `status` is how the call of `context` ended, `timeout` what the caller allowed for it. OK stays
  // OK; for the rest see ExplainFailure.
  absl::Status Explain(absl::string_view operation, const grpc::ClientContext& context,
                       const grpc::Status& status, absl::Duration timeout) const;

  // Between these a request may be cancelled.
  void Begin(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server is silent: ends all requests that are under way, and all that begin later, with
  // UNAVAILABLE.
  void CancelCalls() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether an invoker server chose the status that the call of `context` ended with.
  static bool Answered(const grpc::ClientContext& context);

  // The tokens of a lease that is held over this channel; nullptr: no such lease is known.
  std::shared_ptr<SessionTokenPool> SessionTokensOf(uint64_t lease) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // nullptr: the lease is over.
  void SetSessionTokens(uint64_t lease, std::shared_ptr<SessionTokenPool> pool)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ClientChannel(const HostPort& address, const ClientCredentials& credentials);

  security::CertificatePaths paths() const;
  void Connect(const security::Certificates& certificates) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HostPort address_;
  const std::string name_;
  const ClientCredentials credentials_;
  mutable absl::Mutex mutex_;
  mutable std::vector<security::FileStamp> stamps_ ABSL_GUARDED_BY(mutex_);
  mutable std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  mutable security::FileStamp token_stamp_ ABSL_GUARDED_BY(mutex_);
  mutable std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<SessionTokenPool>> pools_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_CHANNEL_H_
