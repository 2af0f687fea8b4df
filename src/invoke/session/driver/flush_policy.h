// Whether an asynchronous request leaves at once or waits for others to leave with it. Pure logic.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_FLUSH_POLICY_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_FLUSH_POLICY_H_

#include <cstdint>

namespace invoker {

class FlushPolicy {
 public:
  // With so many calls under way a program is after throughput. From the second call between two
  // turns on, calls then wait for the next turn, or until kCompany have gathered.
  static constexpr uint32_t kManyUnderWay = 16;
  static constexpr uint32_t kCompany = 16;
  // With fewer under way, so many leave each by itself first.
  static constexpr uint32_t kAlone = 4;

  // A request has been queued. Whether it, and those before it, are to be posted now.
  bool LeavesNow(uint32_t under_way) {
    const uint32_t started = ++started_since_turn_;
    const uint32_t alone = under_way < kManyUnderWay ? kAlone : 1;
    return started <= alone || started % kCompany == 0;
  }

  void OnTurn() { started_since_turn_ = 0; }

 private:
  uint32_t started_since_turn_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_FLUSH_POLICY_H_
