// Connects anew, in the background, to workers whose sessions a group has lost.
//
// A thread of its own, which sleeps while nothing is lost. It tries each lost executor's worker
// after 100 ms, then after twice as long each time, up to a second, with some randomness, so that
// many clients of a worker that has been restarted do not all come at once.

#ifndef INVOKER_SRC_INVOKE_GROUP_RECONNECTOR_H_
#define INVOKER_SRC_INVOKE_GROUP_RECONNECTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/client.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {

class Reconnector {
 public:
  // Puts the new client in the place of the lost one; on the thread, which others wait for: must
  // not wait for callbacks. If it fails, for want of a function perhaps, the place stays lost, and
  // is tried again.
  using Replace = std::function<absl::Status(size_t executor, std::unique_ptr<Client> client)>;

  // `servers` has the worker of each executor, by number; those beyond it are never tried.
  Reconnector(std::vector<std::string> servers, const ClientOptions& options, Replace replace);
  // Blocks for one try to connect, which takes a second at most where nobody answers.
  ~Reconnector();
  Reconnector(const Reconnector&) = delete;
  Reconnector& operator=(const Reconnector&) = delete;

  // Once. RESOURCE_EXHAUSTED without a thread.
  absl::Status Start();

  // Any thread: the executor has been lost. Does not block.
  void Lost(size_t executor) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Place {
    size_t executor;
    CallDeadline next_try;
    absl::Duration pause;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next place whose time has come; blocks. nullptr: to end.
  bool Next(Place* place) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Try(const Place& place);

  const std::vector<std::string> servers_;
  ClientOptions options_;
  const Replace replace_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Place> lost_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_RECONNECTOR_H_
