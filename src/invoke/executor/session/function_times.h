// How long each function of an executor lately took. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_FUNCTION_TIMES_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_FUNCTION_TIMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace invoker {

// A response that is ready waits at most this long for other responses of its turn.
inline constexpr int64_t kCoalesceNs = 5'000;

class FunctionTimes {
 public:
  explicit FunctionTimes(size_t functions) : ns_(functions, INT64_MAX) {}

  // Makes room for further functions. A function that has not been timed yet counts as slow.
  void Grow(size_t functions) { ns_.resize(functions, INT64_MAX); }

  bool IsSlow(uint16_t id) const { return ns_[id] > kCoalesceNs; }
  // Whether the function is so fast that reading the clock would cost as much.
  bool IsTiny(uint16_t id) const { return ns_[id] <= kTinyNs; }

  // About how long it takes; INT64_MAX: not known yet.
  int64_t Of(uint16_t id) const { return ns_[id]; }

  // One slow run makes a function slow at once; fast runs make it fast again step by step.
  void Add(uint16_t id, int64_t ns) {
    ns_[id] = ns_[id] == INT64_MAX ? ns : std::max(ns, ns_[id] - ns_[id] / 8);
  }

 private:
  static constexpr int64_t kTinyNs = 200;

  std::vector<int64_t> ns_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_FUNCTION_TIMES_H_
