// The RDMA devices of this machine, as rdma-core sees them, and the one setting of libfabric that
// depends on them.
//
// libfabric's layered provider serves every connection of an endpoint from one completion queue of
// the device, and sizes that queue for FI_UNIVERSE_SIZE peers (1024 unless set). A device grants at
// most max_cqe entries. Where 1024 peers do not fit, opening an endpoint fails with "Invalid
// argument" and no word about the reason, so FitUniverseSize() sets the variable to what fits.
//
// Everything here is a value; nothing stays open.

#ifndef INVOKER_SRC_TRANSPORT_DISCOVERY_RDMA_DEVICE_H_
#define INVOKER_SRC_TRANSPORT_DISCOVERY_RDMA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace invoker::transport {

struct RdmaPort {
  int number = 0;                  // from 1
  std::string state;               // "active", "down", ...
  std::string link_layer;          // "Ethernet" or "InfiniBand"; "unspecified" where not said
  int mtu_bytes = 0;               // in use
  double gigabits_per_second = 0;  // all lanes together; 0: unknown
  std::string network_interface;   // "eth0"; empty where there is none
  std::string gid;                 // the port's first, as an IPv6 address
};

struct RdmaDevice {
  std::string name;       // "mlx5_0"
  std::string node_type;  // "InfiniBand channel adapter"
  // Serves reliable connections, and so the layered provider: InfiniBand, RoCE and iWARP do.
  bool connected = false;
  size_t max_cqe = 0;  // entries of a completion queue
  size_t max_qp = 0;
  uint64_t max_mr_size = 0;  // bytes
  std::vector<RdmaPort> ports;
  absl::Status problem;  // why the device could not be asked; then all behind node_type is empty
};

// Asks every RDMA device of this machine, which opens and closes it; none is not an error. Any
// thread.
absl::StatusOr<std::vector<RdmaDevice>> ListRdmaDevices();

// What one endpoint asks of a device's completion queue.
struct QueueDemand {
  size_t transmit = 128;        // entries for each peer
  size_t receive = 128;         // entries for each peer, or for all of them together
  bool receive_shared = false;  // for all of them together
};

// libfabric's own default, and what the user changed of it by environment variables
// (FI_OFI_RXM_MSG_TX_SIZE, FI_OFI_RXM_MSG_RX_SIZE, FI_OFI_RXM_USE_SRX).
QueueDemand QueueDemandFromEnvironment();

// libfabric's default of FI_UNIVERSE_SIZE.
inline constexpr size_t kDefaultUniverseSize = 1024;

// The largest number of peers, at most kDefaultUniverseSize, for which a completion queue of
// `max_cqe` entries has room; 1 if it has for none.
size_t UniverseSizeFor(size_t max_cqe, const QueueDemand& demand);

// Sets FI_UNIVERSE_SIZE to what fits the smallest of `devices`. Leaves the environment as it is
// where the variable is set already, where the default fits, and where no device counts. Returns
// what it set, or 0.
size_t LimitUniverseSize(const std::vector<RdmaDevice>& devices);

// Why libfabric cannot open an endpoint on the device: FI_UNIVERSE_SIZE, as the user has set it,
// asks for a longer completion queue than there is. Empty where it fits.
std::string WhyQueueDoesNotFit(const RdmaDevice& device);

// The same for the device of this machine that has the name; empty if there is none.
std::string WhyQueueDoesNotFit(const std::string& device_name);

// LimitUniverseSize(ListRdmaDevices()), the first time that the process calls it; nothing later.
// libfabric reads the variable once, at the process's first fi_getinfo, so this must come before
// it. It changes the environment (setenv), which no other thread may read or change meanwhile:
// call it before the process starts threads that do, or where it would call libfabric for the
// first time, which reads the environment as well.
//
// More peers than fit can still connect. The queue then has room for only so many of them that let
// their completions pile up at the same moment.
void FitUniverseSize();

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_DISCOVERY_RDMA_DEVICE_H_
