// Asserts that some calls come from one thread. For `assert`: costs nothing in optimized builds.

#ifndef INVOKER_SRC_BASE_THREAD_CHECK_H_
#define INVOKER_SRC_BASE_THREAD_CHECK_H_

#include <thread>

namespace invoker {

class ThreadCheck {
 public:
  // Whether this is the thread that asked first.
  bool IsSame() {
    if (first_ == std::thread::id()) first_ = std::this_thread::get_id();
    return first_ == std::this_thread::get_id();
  }

 private:
  std::thread::id first_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_THREAD_CHECK_H_
