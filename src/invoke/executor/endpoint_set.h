// One fabric of one executor: the endpoint that takes new sessions, and the endpoints before it.
//
// An endpoint is replaced when it takes no more sessions: because it has failed, because it keeps
// as many addresses as it may (transport::Quarantine), or because it no longer answers new peers
// (EndpointWatch). It is then retired: its sessions stay on it, and it is polled, until the last
// has ended and nothing of them is under way any more. Where endpoints can be closed at any time it
// is then released: closing it gives back all that it had. Elsewhere a peer may be in the middle of
// a write to it for as long as that peer likes. There it goes into quarantine: it is neither polled
// nor closed, and keeps its descriptors and addresses.
//
// Executor thread only, except for the methods that say so.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_ENDPOINT_SET_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_ENDPOINT_SET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/invoke/executor/executor_counters.h"
#include "src/invoke/executor/executor_endpoint.h"
#include "src/invoke/executor/executor_shared.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class EndpointSet {
 public:
  // At most this many endpoints at a time beside the one that takes sessions. Each keeps its
  // descriptors and up to 4 TiB of addresses, so all of them stay within
  // QuarantineTotal::kMostBytes.
  static constexpr size_t kMostOthers = 16;

  // See ExecutorEndpoint's constructor.
  EndpointSet(uint16_t fabric, transport::FabricChoice choice, ExecutorShared* shared,
              uint16_t first_number, const transport::ReactorOptions& options);

  // Any thread, for these.

  const transport::Profile& profile() const { return profile_; }
  transport::ReactorUse use() const { return options_.use; }
  // The endpoint that takes sessions. It may take none any more, or be another one at the next
  // moment.
  std::shared_ptr<ExecutorEndpoint> current() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the current endpoint takes sessions, or can be replaced.
  bool healthy() const {
    return others_.load(std::memory_order_relaxed) < kMostOthers || current()->healthy();
  }

  // The current endpoint, which is open, takes no more sessions, for this reason. Another takes its
  // place, and its sessions stay where they are. Returns a note for a log. If there may be no other
  // endpoint, the error says why not, and how to get one.
  absl::StatusOr<std::string> Replace(const absl::Status& reason);
  // Does the same for a current endpoint that no longer answers new peers. With `end_sessions` its
  // sessions end, and it takes no more even if there may be no other. Without, it stays in use
  // then, and there is nothing to log: "".
  absl::StatusOr<std::string> ReplaceSilent(const absl::Status& reason, bool end_sessions);

  // Endpoints that may have to be polled: the current one and the retired ones.
  void ForEach(absl::FunctionRef<void(ExecutorEndpoint*)> visit) const;
  // nullptr if none of these has such a session.
  ExecutorEndpoint* Find(SessionKey key) const;

  // Retired endpoints that need no polling any more are visited no more.
  void SettleRetired();
  // Moves endpoints that can be closed to `released`. The caller closes them by letting go of them,
  // on any thread, which takes some milliseconds. Before that, the executor's inbox must have no
  // use for them any more (ExecutorInbox::AwaitWakers).
  void TakeReleasable(std::vector<std::shared_ptr<ExecutorEndpoint>>* released);

  // Whether retired endpoints still have to be polled.
  bool has_retired() const { return !retired_.empty(); }

  // Sums over all endpoints that there have been.
  ExecutorCounters Counters() const;

 private:
  void CountGivenUp(const ExecutorEndpoint& endpoint);
  absl::Status Refusal(const absl::Status& reason, absl::string_view why) const;
  absl::StatusOr<std::string> PutAnotherInPlace(const absl::Status& reason, bool sessions_end);

  const uint16_t fabric_;
  const transport::Profile profile_;
  ExecutorShared* const shared_;
  const transport::ReactorOptions options_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<ExecutorEndpoint> current_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<ExecutorEndpoint>> retired_;
  std::vector<std::shared_ptr<ExecutorEndpoint>> quarantined_;
  std::atomic<size_t> others_{0};  // retired and quarantined
  std::vector<std::shared_ptr<ExecutorEndpoint>> releasable_;
  ExecutorCounters released_;  // Counters() of closed endpoints
  // The last one that CountGivenUp has counted, as long as it is the current one.
  const ExecutorEndpoint* counted_ = nullptr;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_ENDPOINT_SET_H_
