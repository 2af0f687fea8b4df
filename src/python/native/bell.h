// What wakes a Python thread from threads that must not wait for the GIL.

#ifndef INVOKER_SRC_PYTHON_NATIVE_BELL_H_
#define INVOKER_SRC_PYTHON_NATIVE_BELL_H_

#include <atomic>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "src/python/native/futex_flag.h"

namespace invoker::python {

// Any thread, with or without the GIL.
class Bell {
 public:
  // Ends the Wait under way, or else the next one.
  void Ring() {
    rings_.fetch_add(1, std::memory_order_release);
    due_.Set();
  }

  // Blocks until it is rung, but no longer than this.
  void Wait(absl::Duration limit) {
    const absl::Time end = absl::Now() + limit;
    while (!due_.Clear() && absl::Now() < end) due_.Wait(end - absl::Now());
  }

  // How often it has been rung. Takes no lock.
  uint64_t rings() const { return rings_.load(std::memory_order_acquire); }

 private:
  FutexFlag due_;
  std::atomic<uint64_t> rings_{0};
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_BELL_H_
