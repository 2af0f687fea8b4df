// How a reactor's driver sleeps, and how other threads wake it.
//
// A sleep has three parts: Arm and Disarm are the driver's; Sleep is one thread's at a time, which
// need not be the driver. Submit: any thread.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_DRIVER_WAKER_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_DRIVER_WAKER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/inbox.h"
#include "src/transport/fabric/completion_queue.h"
#include "src/transport/reactor/sleep_flag.h"

namespace invoker::transport {

class DriverWaker {
 public:
  explicit DriverWaker(absl::Duration longest_sleep)
      : longest_sleep_ns_(absl::ToInt64Nanoseconds(longest_sleep)) {}
  ~DriverWaker();
  DriverWaker(const DriverWaker&) = delete;
  DriverWaker& operator=(const DriverWaker&) = delete;

  // Before everything else. `queue` is read by no sleep that begins after it has gone.
  absl::Status Open(CompletionQueue* queue);
  // Peers are to end sleeps: for a queue without a wait object. nullptr: they do not.
  void set_sleep_flag(std::unique_ptr<SleepFlag> flag) { flag_ = std::move(flag); }

  // Puts a task and wakes the driver from its sleep.
  void Submit(Inbox::Task task);
  bool HasTasks() const { return inbox_.HasTasks(); }
  void RunTasks() { inbox_.RunAll(); }

  // Where a sleeping thread blocks, and so how it is woken.
  enum class Asleep : uint8_t { kNo, kInPoll, kInQueue };
  // For a driver that sleeps on one reactor.
  Asleep OwnSleep() const {
    return queue_->wait_method() == WaitMethod::kSread ? Asleep::kInQueue : Asleep::kInPoll;
  }

  // False: there is something to do already, do not sleep. With `retries`, posts wait to be tried
  // again, so that the sleep is short: no event says that they may succeed. `peers` is
  // how many may end the wait. The sleep is long only if each of them looks at the flag.
  bool Arm(Asleep asleep, bool retries, size_t peers);
  void Sleep(absl::Duration limit);
  void Disarm();
  // One sleep in poll(2) for the driver of all of these, each of which is armed so.
  static void SleepOnAll(absl::Span<DriverWaker* const> wakers, absl::Duration limit);

  // For a driver that does not sleep, and whose queue was empty. From now on MayHaveEvents asks the
  // queue's descriptor, for `limit_ns` at most and until the next post. False: it has none to ask,
  // or something has come.
  bool NoteEmpty(uint64_t posts, int64_t limit_ns);
  // False: nothing has come, been submitted or been posted since NoteEmpty.
  bool MayHaveEvents(uint64_t posts) const;

  // The wait is over: without a wait object, the next sleep begins short again.
  void NoteCompletion() { waiting_since_ns_ = 0; }

 private:
  int64_t BackoffNs(int64_t now_ns, size_t peers);

  CompletionQueue* queue_ = nullptr;
  std::unique_ptr<SleepFlag> flag_;
  Inbox inbox_;
  std::atomic<Asleep> asleep_{Asleep::kNo};
  int wake_fd_ = -1;
  std::atomic<bool> signalled_{false};  // wake_fd_ is readable
  const int64_t longest_sleep_ns_;
  int64_t waiting_since_ns_ = 0;  // for a driver without a wait object; 0: it does not wait
  int64_t sleep_limit_ns_ = 0;    // set by Arm
  // Until when the queue's descriptor is asked; 0: it is not. And the posts until then.
  int64_t ask_until_ns_ = 0;
  uint64_t ask_at_posts_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_DRIVER_WAKER_H_
