// What BootstrapClient and Lease share: the gRPC channel, where it goes, and the requests that are
// under way on it. Any thread.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_CHANNEL_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/bootstrap/host_port.h"

// gRPC's headers cost ten seconds a file: those who need more than the names include them.
namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace invoker::bootstrap {

class ClientChannel {
 public:
  // Connects at the first call.
  explicit ClientChannel(const HostPort& address);

  const std::string& name() const { return name_; }  // "HOST:PORT"
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // `status` is how the call of `context` ended, `timeout` what the caller allowed for it. OK stays
  // OK; for the rest see ExplainFailure.
  absl::Status Explain(absl::string_view operation, const grpc::ClientContext& context,
                       const grpc::Status& status, absl::Duration timeout) const;

  // Between these a request may be cancelled.
  void Begin(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server is silent: ends all requests that are under way, with UNAVAILABLE.
  void CancelCalls() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether an invoker server chose the status that the call of `context` ended with.
  static bool Answered(const grpc::ClientContext& context);

 private:
  const HostPort address_;
  const std::string name_;
  const std::shared_ptr<grpc::Channel> channel_;
  absl::Mutex mutex_;
  absl::flat_hash_set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_CHANNEL_H_
