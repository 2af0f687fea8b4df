// The virtual cable between the two devices of tools/soft_roce's machine, which can be cut. Workers
// are at its one end, v0, and clients at the other, v1.
//
// One thread. What it changes is mended when it goes.

#ifndef INVOKER_TESTS_FAILURE_SOFT_ROCE_CABLE_H_
#define INVOKER_TESTS_FAILURE_SOFT_ROCE_CABLE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace invoker::failure {

inline constexpr char kSoftRoceProvider[] = "verbs;ofi_rxm";
inline constexpr char kSoftRoceServerAddress[] = "10.9.0.1";
inline constexpr char kSoftRoceClientAddress[] = "10.9.0.2";

class SoftRoceCable {
 public:
  // From now on connections of the bootstrap to the server's address cross the cable, too, as the
  // fabric's do anyway. FAILED_PRECONDITION outside of that machine.
  static absl::StatusOr<std::unique_ptr<SoftRoceCable>> Make();
  ~SoftRoceCable();
  SoftRoceCable(const SoftRoceCable&) = delete;
  SoftRoceCable& operator=(const SoftRoceCable&) = delete;

  // It is pulled: the servers' link goes down, and with it the clients'. Takes effect at once:
  // starting a program takes a while in that machine.
  absl::Status Pull();
  absl::Status Plug();
  // What either end sends is dropped before it leaves; links stay up, and neither end is told.
  absl::Status DropPackets();
  absl::Status ForwardPackets();

 private:
  explicit SoftRoceCable(int socket) : socket_(socket) {}

  const int socket_;  // for requests to the kernel
};

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_SOFT_ROCE_CABLE_H_
