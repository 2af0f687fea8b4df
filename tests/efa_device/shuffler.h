// The disorder of SRD: holds some frames of a connection back, so that later ones overtake them.
// It loses none.

#ifndef INVOKER_TESTS_EFA_DEVICE_SHUFFLER_H_
#define INVOKER_TESTS_EFA_DEVICE_SHUFFLER_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "tests/efa_device/faults.h"

namespace efa_device {

class Shuffler {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Shuffler(const Faults::Stream& faults) : faults_(faults) {}

  // Takes the next frame. Appends to `ready` what is to be sent now.
  void Offer(std::string frame, Time now, std::vector<std::string>* ready);

  // Appends the frames that have waited long enough.
  void TakeDue(Time now, std::vector<std::string>* ready);

  bool empty() const { return held_.empty(); }
  // When TakeDue has something to give. Only if not empty().
  Time NextDue() const;

 private:
  struct Held {
    std::string frame;
    uint64_t overtakers;  // how many later frames go first
    Time due;             // but it waits no longer than this
  };
  Faults::Stream faults_;
  std::list<Held> held_;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_SHUFFLER_H_
