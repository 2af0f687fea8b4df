// Starting a thread where the system may have none left.

#ifndef INVOKER_SRC_BASE_START_THREAD_H_
#define INVOKER_SRC_BASE_START_THREAD_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace invoker::transport {

// Makes `thread`, which is none so far, one that runs `run`. RESOURCE_EXHAUSTED, and `thread` still
// none, if the user or the control group may have no more. Any thread; does not block.
absl::Status StartThread(std::thread* thread, std::function<void()> run);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_BASE_START_THREAD_H_
