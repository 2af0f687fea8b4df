// Finds requests whose clients fear that they are lost on the way.
//
// No executor can see that a request has not arrived. It can see that it has passed over its queues
// often enough since the first question: it would have taken the request if it had been there. So
// passes are counted from one question about a request to the next. Functions of other sessions
// only make that take longer. While a function runs, a request that was in none of the passes
// before counts as not arrived, unless the function is of the same session: then it may be the
// request's.
//
// Any thread asks. The executor's thread looks at some cases between two passes. A client that asks
// about many sessions, or about requests that it never sent, makes answers take longer, and not the
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
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/session/session_key.h"

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

  // Returns the request's state. Blocks for `patience` at most. `wake` is called once: it makes the
  // executor's thread pass and look. `watch` is the executor's.
  absl::StatusOr<bootstrap::RequestState> Ask(SessionKey session, uint64_t sequence,
                                              const ExecutorWatch& watch, absl::Duration patience,
                                              absl::FunctionRef<void()> wake)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The rest is the executor's thread's. One load each.

  // Sessions about which something is known, or asked.
  size_t cases() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is nothing to look for.
  bool idle() const { return idle_.load(std::memory_order_relaxed); }
  // Whether a thread waits for passes.
  bool awaited() const { return waiting_.load(std::memory_order_relaxed) > 0; }

  // The session's own answer now; an error if there is no such session.
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
    int waiting = 0;       // threads that wait for the answer
    // The state that the session reported, if it takes passes to be believed.
    std::optional<bootstrap::RequestState> state;
    uint32_t passes = 0;  // since it was first found to be so
    uint32_t fresh = 0;   // the part of `passes` since the last question
    // The answer to the last question, once it is known.
    std::optional<absl::StatusOr<bootstrap::RequestState>> answer;
  };

  using Cases = std::map<uint32_t, Case>;  // by epoch: one a session

  absl::StatusOr<bootstrap::RequestState> AnswerOf(const Case& one, const ExecutorWatch& watch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void LookAt(Find find, int64_t now_ns, Case* one);
  // Whether later looks may change the answer.
  static bool IsOpen(const Case& one);

  mutable absl::Mutex mutex_;
  // Signalled, and not looked at by Mutex::Await, so that a look without an answer costs the
  // executor's thread nothing.
  absl::CondVar told_;
  Cases cases_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // where the next look begins
  std::atomic<bool> idle_{true};
  std::atomic<int> waiting_{0};
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_REQUEST_SEARCH_H_
