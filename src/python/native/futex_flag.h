// A flag that threads wait for, in the kernel and without a lock: in a forked process a lock may be
// held for ever by a thread that is not there, and absl::Mutex takes locks of its library's own.

#ifndef INVOKER_SRC_PYTHON_NATIVE_FUTEX_FLAG_H_
#define INVOKER_SRC_PYTHON_NATIVE_FUTEX_FLAG_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "absl/time/time.h"

namespace invoker::python {

// Any thread.
class FutexFlag {
 public:
  // Ends every Wait.
  void Set() {
    value_.store(1, std::memory_order_release);
    Futex(FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
  }
  bool is_set() const { return value_.load(std::memory_order_acquire) != 0; }

  // Takes it back. Whether it was set.
  bool Clear() { return value_.exchange(0, std::memory_order_acq_rel) != 0; }

  // Blocks until it is set, but no longer than this; may return early.
  void Wait(absl::Duration limit) const {
    if (is_set() || limit <= absl::ZeroDuration()) return;
    const timespec relative = absl::ToTimespec(limit);
    Futex(FUTEX_WAIT_PRIVATE, 0, limit == absl::InfiniteDuration() ? nullptr : &relative);
  }

 private:
  void Futex(int operation, uint32_t value, const timespec* limit) const {
    syscall(SYS_futex, &value_, operation, value, limit, nullptr, 0);
  }

  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  std::atomic<uint32_t> value_{0};
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_FUTEX_FLAG_H_
