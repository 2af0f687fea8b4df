// One fabric of one executor: the endpoint that takes new sessions, and those before it.
//
// An endpoint that takes no more sessions, because it has failed or because it keeps as many
// addresses as it may (transport::Quarantine), is replaced at the next session; one that no longer
// answers, as soon as that is known (EndpointWatch). Sessions that it
// has stay on it, and it is polled as before, until the last has ended and nothing of them is under
// way any more. Then it is closed, where endpoints can be closed at any time, which gives back all
// that it had. Elsewhere a peer may be in the middle of a write to it for as long as that peer
// likes; it is put away: neither polled nor closed, with its descriptors and addresses.
//
// The executor's thread, but for what says otherwise.

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
#include "src/invoke/executor/executor_endpoint.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class EndpointSet {
 public:
  // Endpoints beside the one that takes sessions, at a time: each keeps its descriptors, and up to
  // 4 TiB of addresses, so that all of them stay within QuarantineTotal::kMostBytes.
  static constexpr size_t kMostOthers = 16;

  // As ExecutorEndpoint's.
  EndpointSet(uint16_t fabric, transport::FabricChoice choice, ExecutorShared* shared,
              uint16_t first_number, const transport::ReactorOptions& options);

  // Any thread, for these.

  const transport::Profile& profile() const { return profile_; }
  transport::ReactorUse use() const { return options_.use; }
  // The port that takes sessions; it may take none any more, or be another one at the next moment.
  std::shared_ptr<ExecutorEndpoint> current() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether that takes sessions, or can be replaced.
  bool healthy() const {
    return others_.load(std::memory_order_relaxed) < kMostOthers || current()->healthy();
  }

  // The current port, which is open, takes no more sessions, for this reason: another takes its
  // place, and its sessions stay where they are. Says so, for a log. If there may be no other, why
  // not, and what to do.
  absl::StatusOr<std::string> Replace(const absl::Status& reason);
  // Does the same for a current port that no longer answers new peers. With `end_sessions` the
  // port's sessions end, and it takes no more even if there may be no other. Without, it stays in
  // use then, and there is nothing to log: "".
  absl::StatusOr<std::string> ReplaceSilent(const absl::Status& reason, bool end_sessions);

  // Ports that may have to be polled: the current one, and those before it.
  void ForEach(absl::FunctionRef<void(ExecutorEndpoint*)> visit) const;
  // nullptr if none of them has such a session.
  ExecutorEndpoint* PortOf(SessionKey key) const;

  // Of the ports before the current one, those that need no polling any more are visited no more.
  void PutSettledAway();
  // Moves those of them that are to be closed to `closed`. Whoever lets go of them closes them, on
  // any thread, which takes some milliseconds; the executor's inbox must know nothing of them any
  // more (ExecutorInbox::AwaitWakers).
  void TakeClosed(std::vector<std::shared_ptr<ExecutorEndpoint>>* closed);

  // Whether ports before the current one still have to be polled.
  bool settling() const { return !before_.empty(); }

  // Of all ports there have been.
  ExecutorCounters Counters() const;

 private:
  absl::Status Refusal(const absl::Status& reason, absl::string_view why) const;
  absl::StatusOr<std::string> PutAnotherInPlace(const absl::Status& reason, bool sessions_end);

  const uint16_t fabric_;
  const transport::Profile profile_;
  ExecutorShared* const shared_;
  const transport::ReactorOptions options_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<ExecutorEndpoint> current_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<ExecutorEndpoint>> before_;
  std::vector<std::shared_ptr<ExecutorEndpoint>> away_;
  std::atomic<size_t> others_{0};  // of both
  std::vector<std::shared_ptr<ExecutorEndpoint>> closing_;
  ExecutorCounters closed_;  // what those that have been closed add to Counters()
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_ENDPOINT_SET_H_
