// How a peer on the same host ends the sleep of a driver, where endpoints are files in /dev/shm and
// the fabric itself wakes nobody.
//
// Beside the endpoint's file there are two more: a word that both sides map, which says that the
// driver sleeps, and a FIFO, which ends its sleep. A peer posts, then looks at the word, which
// costs it a load; only where that says "asleep" does it write to the FIFO.
//
// No fence stands between the peer's post and its look. So a driver that has just raised the flag
// polls once more after a moment (kSettleNs) before it relies on it: by then it sees every post
// whose peer did not see the flag.
//
// Both files have their owner's rights alone, as the endpoint's file has. A peer can spoil them, as
// it can spoil that one: others' calls may then wait for as long as the driver sleeps.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_SLEEP_FLAG_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_SLEEP_FLAG_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"

namespace invoker::transport {

// What both sides map.
struct SleepWord {
  std::atomic<uint32_t> asleep{0};  // 1: make it 0 and write to the FIFO
  std::atomic<uint32_t> wakers{0};  // peers that look at it
};

// The sleeper's side. Driver thread only.
class SleepFlag {
 public:
  // After so long, every post can be seen whose peer did not see the flag go up.
  static constexpr int64_t kSettleNs = 50'000;

  // Makes the files beside that of the endpoint with this address. nullptr if that has no file with
  // a name of ours (shared_files.h), or the system refuses: then the driver has to look.
  static std::unique_ptr<SleepFlag> Open(absl::string_view address);
  ~SleepFlag();
  SleepFlag(const SleepFlag&) = delete;
  SleepFlag& operator=(const SleepFlag&) = delete;

  // Peers that post from now on write to the FIFO. Does nothing if the flag is up.
  void Raise(int64_t now_ns);
  // The driver has slept, and is about to poll. Whether a peer has woken it: then the flag is down.
  bool AfterSleep(int64_t now_ns);
  // Whether the flag was up for kSettleNs before the last poll, so that nothing comes unseen.
  bool settled() const { return settled_; }

  // The FIFO, readable when a peer has woken the driver.
  int file_descriptor() const { return fifo_; }
  // How many peers look at the flag. One that was killed still counts.
  uint32_t wakers() const { return word_->wakers.load(std::memory_order_relaxed); }

 private:
  explicit SleepFlag(absl::string_view address) : address_(address) {}

  const std::string address_;  // the endpoint's
  SleepWord* word_ = nullptr;
  int fifo_ = -1;
  bool raised_ = false;
  bool settled_ = false;
  int64_t raised_at_ns_ = 0;
};

// A peer's side. One thread at a time.
class PeerWaker {
 public:
  // For the endpoint with this address; nullptr if it shows no flag.
  static std::unique_ptr<PeerWaker> Open(absl::string_view address);
  ~PeerWaker();
  PeerWaker(const PeerWaker&) = delete;
  PeerWaker& operator=(const PeerWaker&) = delete;

  // After a post: ends the driver's sleep if the flag is up.
  void WakeIfAsleep() {
    if (ABSL_PREDICT_FALSE(word_->asleep.load(std::memory_order_relaxed) != 0)) Wake();
  }

 private:
  PeerWaker(SleepWord* word, int fifo);
  void Wake();

  SleepWord* const word_;
  const int fifo_;
  const pid_t maker_;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_SLEEP_FLAG_H_
