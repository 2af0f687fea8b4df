// Finds endpoints that no longer answer new peers, and has them replaced.
//
// A provider's listener can stop without an error (docs/design/libfabric.md, "Endpoints that stop
// answering"): existing sessions may go on, and no new one can open. So a thread sends a small
// message to each open endpoint from a new endpoint. It does so now and then where peers connect to
// an endpoint. On every fabric it does so soon after a session has ended from which nothing ever
// came. The executor's thread must see the message arrive. An executor that runs a function does
// not look for it. So an endpoint is silent only if its executor has looked often enough, for long
// enough, and twice in vain.
//
// A silent endpoint is replaced: new sessions get another. If requests came meanwhile from its
// sessions, the endpoint is not dead but slow to let new peers in, and these sessions stay. If none
// came, they end. Endpoints whose peers share locks with their calls are not checked: peers do not
// connect there, and the loss shows by itself (transport::GuardedCalls).

#ifndef INVOKER_SRC_INVOKE_WORKER_ENDPOINT_WATCH_H_
#define INVOKER_SRC_INVOKE_WORKER_ENDPOINT_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/invoke/executor/executor.h"
#include "src/transport/self_test/checking_endpoint.h"

namespace invoker {

// The period of a server.
inline constexpr absl::Duration kServersEndpointCheck = absl::Seconds(30);

struct EndpointWatchOptions {
  // Between two rounds of checks without a reason; infinite: none, and no thread.
  absl::Duration period = absl::InfiniteDuration();
  // How long the first and the second message have, each, before they count as lost. Time in which
  // the watching thread got no processor does not count.
  absl::Duration patience = absl::Seconds(5);
  // How often the executor must have polled the endpoint meanwhile.
  uint64_t least_turns = 128;
};

class EndpointWatch {
 public:
  explicit EndpointWatch(const EndpointWatchOptions& options) : options_(options) {}
  ~EndpointWatch() { Stop(); }

  // Once. `executors` stay as they are until the thread has ended. `on_note` gets notes for a log
  // about endpoints that were replaced; on the thread. RESOURCE_EXHAUSTED without a thread.
  absl::Status Start(absl::Span<const std::unique_ptr<Executor>> executors,
                     std::function<void(absl::string_view note)> on_note);

  // Waits for the thread, which takes some seconds if executors run long functions.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Any thread; does not block. There is reason to doubt an endpoint: all are checked soon.
  void Doubt() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Verdict : uint8_t { kAnswers, kSlow, kSilent, kUnknown };

  void ThreadMain() ABSL_LOCKS_EXCLUDED(mutex_);
  void Round(bool doubted);
  void Check(Executor* executor, const std::shared_ptr<ExecutorEndpoint>& endpoint);
  Verdict Ask(Executor* executor, const std::shared_ptr<ExecutorEndpoint>& endpoint);
  Verdict AwaitCheck(Executor* executor, const std::shared_ptr<ExecutorEndpoint>& endpoint,
                     const Executor::Activity& before, transport::CheckingEndpoint* asking);
  void ReleaseReplaced();
  bool stopping() ABSL_LOCKS_EXCLUDED(mutex_);

  const EndpointWatchOptions options_;
  absl::Span<const std::unique_ptr<Executor>> executors_;
  std::function<void(absl::string_view note)> on_note_;
  bool has_retired_ = false;  // the thread's: endpoints that were replaced are to be closed

  absl::Mutex mutex_;
  bool doubted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WORKER_ENDPOINT_WATCH_H_
