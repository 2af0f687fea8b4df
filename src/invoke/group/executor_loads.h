// The sessions of several executors: which one each has, how busy it is, and which are lost.
//
// Shared by everything that calls them and by the callbacks of calls, which may come after the
// clients have gone.
//
// A session that is lost may be followed by another one at once, whatever is still under way in it:
// a callback may be waiting for just that. What is counted is counted for the session that it was
// begun in, and what is heard of one that has been followed is of no effect.

#ifndef INVOKER_SRC_INVOKE_GROUP_EXECUTOR_LOADS_H_
#define INVOKER_SRC_INVOKE_GROUP_EXECUTOR_LOADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace invoker {

class Client;

// Any thread.
class ExecutorLoads {
 private:
  struct Seat;

 public:
  // A value: one session with one of the executors.
  class Session {
   public:
    size_t executor() const { return seat_->executor; }
    // Stays the session's while a call is counted for it.
    Client& client() const { return *seat_->client.load(std::memory_order_acquire); }
    // While a call is counted for it: whether it has been lost.
    bool lost() const { return seat_->lost.load(std::memory_order_seq_cst); }

   private:
    friend class ExecutorLoads;
    Session(Seat* seat, uint64_t number) : seat_(seat), number_(number) {}

    Seat* seat_;
    uint64_t number_;
  };

  // Each executor's first session. `most`: executors that there may be; 0: no more than these.
  explicit ExecutorLoads(const std::vector<Client*>& clients, size_t most = 0);

  // Executors so far; there are never fewer.
  size_t size() const { return size_.load(std::memory_order_acquire); }
  size_t most() const { return most_; }

  // Counts a call for the executor with the fewest under way; those that are equal take turns. If
  // all are lost, why the last one was. Threads that ask at the same moment may get the same one.
  absl::StatusOr<Session> Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  void End(Session session) { session.seat_->calls.fetch_sub(1, std::memory_order_seq_cst); }

  // Calls under way in the session that the executor has now.
  uint32_t calls(size_t executor) const {
    return Now(executor)->calls.load(std::memory_order_seq_cst);
  }
  Client& client(size_t executor) const {
    return *Now(executor)->client.load(std::memory_order_acquire);
  }
  Session session(size_t executor) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether calls are counted for it. Of one that is lost: once there are none, there will be none.
  bool InUse(Session session) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Nothing can be called there any more, until Follow. Nothing, if that has come already.
  void Lose(Session session, const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another session, of this client, for an executor that is lost. One thread at a time.
  Session Follow(size_t executor, Client* client) ABSL_LOCKS_EXCLUDED(mutex_);
  // The first session of a further executor. RESOURCE_EXHAUSTED: there may be no more.
  absl::StatusOr<Session> Add(Client* client) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be told whenever one is lost. Must not block, nor call this object. Nobody is told once it
  // has been set anew.
  void set_on_lost(std::function<void(size_t executor)> on_lost) ABSL_LOCKS_EXCLUDED(mutex_);
  // Who has seen a session come sees its client too.
  size_t left() const { return size() - lost_.load(std::memory_order_acquire); }

  // OK while one is left; then why the last one was lost. At the next moment either may be
  // otherwise: a caller that needs an executor, or the reason why there is none, asks Begin.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Where a session is. Stays as long as this object, so that any thread may look at it at any
  // time: a call counts itself first and looks then whether the session is lost. Taken for another
  // one of the same executor only while no call is counted there.
  struct Seat {
    Seat(size_t of, Client* first) : executor(of), client(first) {}

    const size_t executor;
    std::atomic<Client*> client;
    std::atomic<uint64_t> number{0};  // sessions so far; changed under the mutex
    std::atomic<uint32_t> calls{0};
    std::atomic<bool> lost{false};  // changed under the mutex
  };

  Seat* Now(size_t executor) const { return now_[executor].load(std::memory_order_acquire); }
  Seat* Choose();
  Seat* EmptySeatLocked(size_t executor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  std::atomic<size_t> size_;                         // changed under the mutex
  const std::unique_ptr<std::atomic<Seat*>[]> now_;  // by executor; changed under the mutex
  std::atomic<size_t> next_{0};                      // where to begin to look
  std::atomic<size_t> lost_{0};                      // executors; changed under the mutex
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Seat>> seats_ ABSL_GUARDED_BY(mutex_);
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  std::function<void(size_t)> on_lost_ ABSL_GUARDED_BY(mutex_);
};

// Whether a call that failed like this shows that its executor takes no calls any more: its session
// has ended, or its worker is shutting down.
bool ShowsLostExecutor(const absl::Status& status);

// Whether a call that failed like this has not been executed, because its executor takes no calls
// any more: it goes to another one, whatever CallOptions::retry says.
bool MayMove(const absl::Status& status);

// Whether CallOptions::retry is for a call that failed like this.
bool MayBeRetried(const absl::Status& status);

// What a call ends with whose last try ended like this, if an earlier one may have been executed:
// then that is its fate, unless the last one says more.
absl::Status AfterTries(absl::Status last, bool maybe_executed);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_EXECUTOR_LOADS_H_
