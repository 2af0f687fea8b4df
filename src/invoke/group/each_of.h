// Does something with each of several servers at the same time.

#ifndef INVOKER_SRC_INVOKE_GROUP_EACH_OF_H_
#define INVOKER_SRC_INVOKE_GROUP_EACH_OF_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/start_thread.h"

namespace invoker {

// make(i) for each i below `count`, up to 64 at a time, this thread included. Blocks for all.
template <typename Result, typename Make>
std::vector<absl::StatusOr<Result>> EachOf(size_t count, const Make& make) {
  constexpr size_t kMostThreads = 64;
  std::vector<absl::StatusOr<Result>> results(count);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) results[i] = make(i);
  };
  std::vector<std::thread> threads(std::min(count, kMostThreads));
  for (size_t i = 1; i < threads.size(); ++i) {
    // Without it there are fewer.
    transport::StartThread(&threads[i], work).IgnoreError();
  }
  work();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return results;
}

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_EACH_OF_H_
