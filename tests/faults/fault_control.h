// What all faulty objects of a process have in common: the plan, the counts, and who is a victim.
// Any thread.

#ifndef INVOKER_TESTS_FAULTS_FAULT_CONTROL_H_
#define INVOKER_TESTS_FAULTS_FAULT_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "src/transport/base/libfabric.h"
#include "tests/faults/fault_plan.h"
#include "tests/faults/faulty_fabric.h"
#include "tests/faults/live_counts.h"

namespace invoker::faults {

class FaultControl {
 public:
  // Never destroyed: objects may be closed after main has returned.
  static FaultControl& Get();

  void Arm(const FaultPlan& plan, uint64_t seed);
  void Disarm();
  // Arms from the environment, the first time.
  void LookAtEnvironment();

  // The plan in force, which stays valid; nullptr: none.
  const FaultPlan* plan() const { return plan_.load(std::memory_order_acquire); }
  uint64_t seed() const { return seed_.load(std::memory_order_relaxed); }

  // Makes dice for the object that is being opened now.
  Dice NewDice();

  // For what belongs to no object: whether opening, or mapping, fails now.
  bool OpeningFails();
  bool MappingFails();

  void AddVictim(const std::string& raw_address);
  bool IsVictim(const std::string& raw_address);

  // Whether the object, which is being closed, is left to CloseNow.
  bool ClosesLater(fid* object);
  void CloseLater();
  void CloseNow();

  LiveCounts& counts;

 private:
  FaultControl();

  std::atomic<const FaultPlan*> plan_{nullptr};
  std::atomic<uint64_t> seed_{0};
  std::mutex mutex_;
  std::set<std::unique_ptr<const FaultPlan>> plans_;  // that were ever in force
  uint64_t objects_ = 0;                              // opened since Arm
  Dice shared_{0, 0};
  std::set<std::string> victims_;
  bool closes_later_ = false;
  std::vector<fid*> to_close_;
};

}  // namespace invoker::faults

#endif  // INVOKER_TESTS_FAULTS_FAULT_CONTROL_H_
