// The card's address handles: a small number for each GID that the process talks to.

#ifndef INVOKER_TESTS_EFA_DEVICE_ADDRESS_HANDLES_H_
#define INVOKER_TESTS_EFA_DEVICE_ADDRESS_HANDLES_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "tests/efa_device/gid.h"

namespace efa_device {

class AddressHandles {
 public:
  // The number that a completion has if its sender's GID has no handle here.
  static constexpr uint16_t kUnknown = 0xffff;

  explicit AddressHandles(size_t limit) : limit_(limit) {}

  // The handle of `gid`, counted: a second one for the same GID has the same number. False if the
  // card has no more.
  bool Acquire(const Gid& gid, uint16_t* number);

  // Undoes one Acquire.
  void Release(const Gid& gid);

  uint16_t Find(const Gid& gid) const;

 private:
  struct Handle {
    uint16_t number;
    size_t count;
  };
  size_t limit_;
  std::map<Gid, Handle> handles_;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_ADDRESS_HANDLES_H_
