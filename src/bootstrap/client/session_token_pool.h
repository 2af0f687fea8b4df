// The session tokens that one lease's stream has brought, on the client: a thread that opens a
// session takes one, and asks for another where there is none.
//
// Any thread.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_SESSION_TOKEN_POOL_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_SESSION_TOKEN_POOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace invoker::bootstrap {

class SessionTokenPool {
 public:
  // `ask` makes the lease's thread send TakeWanted() to the worker; it does not block.
  explicit SessionTokenPool(std::function<void()> ask) : ask_(std::move(ask)) {}

  void Add(std::vector<std::string> tokens, absl::Duration expiry) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    // They have been under way for a while, and will be once more.
    const absl::Time stale_at = absl::Now() + expiry / 2;
    coming_ -= std::min<size_t>(coming_, tokens.size());
    for (std::string& token : tokens) tokens_.push_back({std::move(token), stale_at});
  }

  // Blocks until there is one, for `timeout` at most. Empty if the lease is over: the worker has
  // the words for that.
  absl::StatusOr<std::string> Take(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!tokens_.empty() && tokens_.front().stale_at <= absl::Now()) tokens_.pop_front();
    // Another thread's token may be taken before that thread has woken up: what counts is that
    // there is one for each.
    ++waiting_;
    AskFor(waiting_);
    const bool answered =
        mutex_.AwaitWithTimeout(absl::Condition(this, &SessionTokenPool::HasAnswer), timeout);
    --waiting_;
    if (!answered) {
      return absl::DeadlineExceededError("the worker has sent no session token in time");
    }
    if (tokens_.empty()) return std::string();
    std::string token = std::move(tokens_.front().text);
    tokens_.pop_front();
    // The next session that is opened soon has one without waiting.
    AskFor(waiting_ + 1);
    return token;
  }

  // How many more to ask for; they count as asked for then.
  uint32_t TakeWanted() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return std::exchange(wanted_, 0);
  }

  // The lease is over: nobody asks any more.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    tokens_.clear();
  }

 private:
  struct Token {
    std::string text;
    absl::Time stale_at;
  };

  void AskFor(size_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (tokens_.size() + coming_ >= count || closed_) return;
    ++wanted_;
    ++coming_;
    ask_();
  }
  bool HasAnswer() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || !tokens_.empty();
  }

  const std::function<void()> ask_;
  absl::Mutex mutex_;
  std::deque<Token> tokens_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;        // threads in Take
  uint32_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;       // not asked for yet
  size_t coming_ ABSL_GUARDED_BY(mutex_) = 0;         // wanted ones, until they are there
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_SESSION_TOKEN_POOL_H_
