// Finds out what has become of requests whose clients fear that they are lost on the way.
//
// That a request has not arrived cannot be seen. What can be seen is that the executor has passed
// over its queues so often, since it was first asked, that it would have taken the request if it
// had been there. So passes are counted from one question about a request to the next: functions of
// other sessions, however many of them run, only make it take longer. What a function that runs now
// keeps the executor from seeing is not known, but what was not there in all the passes before is
// said not to have arrived, unless the function is of the same session, and may be the request's.
//
// Any thread asks. The executor's thread looks, between two passes, at some cases each time: who
// asks about many sessions, or about what never was, makes the answers take longer, and not the
// passes.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_REQUEST_SEARCH_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_REQUEST_SEARCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/executor_endpoint.h"
#include "src/invoke/executor/executor_watch.h"

namespace invoker {

class RequestSearch {
 public:
  // After so many passes since the question nothing is waited for any more: an idle executor makes
  // them in some 100 us.
  static constexpr uint32_t kEnoughPasses = 256;
  // The least since the first question. While sessions take turns each reads a thousand entries of
  // its queue, so these have read more than the queue takes.
  static constexpr uint32_t kLeastPasses = 8;
  // How long a question waits for passes.
  static constexpr absl::Duration kPatience = absl::Milliseconds(100);

  // What has become of the request. Blocks for `patience` at most. `wake` is called once: it sees
  // to it that the executor's thread makes passes and looks. `watch` is the executor's.
  absl::StatusOr<bootstrap::RequestState> Ask(SessionKey session, uint64_t sequence,
                                              const ExecutorWatch& watch, absl::Duration patience,
                                              absl::FunctionRef<void()> wake)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The rest is the executor's thread's. One load each.

  // Sessions about which something is known, or asked.
  size_t cases() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is nothing to look for.
  bool idle() const { return idle_.load(std::memory_order_relaxed); }
  // Whether somebody waits for passes.
  bool awaited() const { return waiting_.load(std::memory_order_relaxed) > 0; }

  // What the session itself says now; an error if there is none.
  using Find =
      absl::FunctionRef<absl::StatusOr<bootstrap::RequestState>(SessionKey, uint64_t sequence)>;

  // So many cases at each look.
  static constexpr size_t kCasesPerLook = 8;

  // To be called between any two passes, unless idle.
  void Look(Find find, int64_t now_ns) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Case {
    SessionKey session;
    uint64_t sequence = 0;
    int64_t asked_ns = 0;  // last
    int waiting = 0;       // who have asked and have not been told
    // What it has been found to be, if that takes passes to be believed.
    std::optional<bootstrap::RequestState> state;
    uint32_t passes = 0;  // since it was first found to be so
    uint32_t fresh = 0;   // of them, since the last question
    // What the last question is told, once that is known.
    std::optional<absl::StatusOr<bootstrap::RequestState>> answer;
  };

  using Cases = std::map<uint32_t, Case>;  // by epoch: one a session

  absl::StatusOr<bootstrap::RequestState> AnswerOf(const Case& one, const ExecutorWatch& watch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void LookAt(Find find, int64_t now_ns, Case* one);
  // Whether later looks may change what is known.
  static bool IsOpen(const Case& one);

  mutable absl::Mutex mutex_;
  // Signalled, so that whoever waits costs the executor's thread nothing at a look that tells
  // nothing.
  absl::CondVar told_;
  Cases cases_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // where the next look begins
  std::atomic<bool> idle_{true};
  std::atomic<int> waiting_{0};
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_REQUEST_SEARCH_H_
