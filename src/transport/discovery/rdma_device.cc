#include "src/transport/discovery/rdma_device.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace invoker::transport {
namespace {

constexpr char kUniverseSize[] = "FI_UNIVERSE_SIZE";

// What the layered provider asks for where all peers share one receive queue.
constexpr size_t kSharedReceive = 4096;

absl::Status Failed(const char* operation, const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(operation, " ", what, ": ", strerror(error)));
}

std::string StateText(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initializing";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
    case IBV_PORT_ACTIVE_DEFER:
      return "active";
    default:
      return "unknown";
  }
}

std::string LinkLayerText(uint8_t link_layer) {
  switch (link_layer) {
    case IBV_LINK_LAYER_INFINIBAND:
      return "InfiniBand";
    case IBV_LINK_LAYER_ETHERNET:
      return "Ethernet";
    default:
      return "unspecified";
  }
}

// The codes are the InfiniBand specification's, PortInfo: LinkSpeedActive and LinkWidthActive.
double GigabitsPerSecond(uint8_t speed, uint8_t width) {
  double lane = 0;
  switch (speed) {
    case 1:
      lane = 2.5;
      break;
    case 2:
      lane = 5;
      break;
    case 4:
    case 8:
      lane = 10;
      break;
    case 16:
      lane = 14;
      break;
    case 32:
      lane = 25;
      break;
    case 64:
      lane = 50;
      break;
    case 128:
      lane = 100;
      break;
  }
  switch (width) {
    case 1:
      return lane;
    case 2:
      return 4 * lane;
    case 4:
      return 8 * lane;
    case 8:
      return 12 * lane;
    case 16:
      return 2 * lane;
    default:
      return 0;
  }
}

RdmaPort QueryPort(ibv_context* context, int number) {
  RdmaPort port;
  port.number = number;
  port.state = "unknown";
  ibv_port_attr attributes = {};
  if (ibv_query_port(context, static_cast<uint8_t>(number), &attributes) == 0) {
    port.state = StateText(attributes.state);
    port.link_layer = LinkLayerText(attributes.link_layer);
    // IBV_MTU_256 is 1, and every further code twice as much.
    if (attributes.active_mtu >= IBV_MTU_256) port.mtu_bytes = 128 << attributes.active_mtu;
    port.gigabits_per_second = GigabitsPerSecond(attributes.active_speed, attributes.active_width);
  }
  ibv_gid gid;
  char text[INET6_ADDRSTRLEN] = "";
  if (ibv_query_gid(context, static_cast<uint8_t>(number), 0, &gid) == 0 &&
      inet_ntop(AF_INET6, gid.raw, text, sizeof(text)) != nullptr) {
    port.gid = text;
  }
  // Not to be read on a port whose first identifier belongs to no interface.
  std::ifstream(
      absl::StrCat(context->device->ibdev_path, "/ports/", number, "/gid_attrs/ndevs/0")) >>
      port.network_interface;
  return port;
}

RdmaDevice QueryDevice(ibv_device* device) {
  RdmaDevice result;
  result.name = ibv_get_device_name(device);
  result.node_type = ibv_node_type_str(device->node_type);
  std::unique_ptr<ibv_context, int (*)(ibv_context*)> context(ibv_open_device(device),
                                                              &ibv_close_device);
  if (context == nullptr) {
    result.problem = Failed("opening the RDMA device", result.name, errno);
    return result;
  }
  ibv_device_attr attributes = {};
  const int error = ibv_query_device(context.get(), &attributes);
  if (error != 0) {
    result.problem = Failed("asking the RDMA device", result.name, error);
    return result;
  }
  result.connected =
      device->transport_type == IBV_TRANSPORT_IB || device->transport_type == IBV_TRANSPORT_IWARP;
  result.max_cqe = static_cast<size_t>(std::max(attributes.max_cqe, 0));
  result.max_qp = static_cast<size_t>(std::max(attributes.max_qp, 0));
  result.max_mr_size = attributes.max_mr_size;
  for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
    result.ports.push_back(QueryPort(context.get(), number));
  }
  return result;
}

// The variable's value, or `otherwise` where it is not set to a number above 0.
size_t NumberFromEnvironment(const char* name, size_t otherwise) {
  const char* text = getenv(name);
  size_t number = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &number) || number == 0) return otherwise;
  return number;
}

// Reads a boolean the way libfabric does.
bool IsTrue(const char* text) {
  if (text == nullptr) return false;
  const std::string word = absl::AsciiStrToLower(text);
  return word == "1" || word == "true" || word == "yes" || word == "on";
}

}  // namespace

absl::StatusOr<std::vector<RdmaDevice>> ListRdmaDevices() {
  std::vector<RdmaDevice> devices;
  int count = 0;
  std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(&count),
                                                            &ibv_free_device_list);
  if (list == nullptr) {
    // The kernel has no RDMA support at all, or not loaded.
    if (errno == ENOSYS || errno == ENOENT) return devices;
    return absl::UnavailableError(
        absl::StrCat("listing the RDMA devices (ibv_get_device_list): ", strerror(errno)));
  }
  for (int i = 0; i < count; ++i) devices.push_back(QueryDevice(list.get()[i]));
  return devices;
}

QueueDemand QueueDemandFromEnvironment() {
  QueueDemand demand;
  demand.receive_shared = IsTrue(getenv("FI_OFI_RXM_USE_SRX"));
  if (demand.receive_shared) demand.receive = kSharedReceive;
  demand.transmit = NumberFromEnvironment("FI_OFI_RXM_MSG_TX_SIZE", demand.transmit);
  demand.receive = NumberFromEnvironment("FI_OFI_RXM_MSG_RX_SIZE", demand.receive);
  return demand;
}

size_t UniverseSizeFor(size_t max_cqe, const QueueDemand& demand) {
  size_t entries = max_cqe;
  size_t per_peer = demand.transmit;
  if (demand.receive_shared) {
    entries -= std::min(entries, demand.receive);
  } else {
    // A sum that does not fit the type is more than any queue has.
    per_peer += demand.receive;
    if (per_peer < demand.receive) return 1;
  }
  if (per_peer == 0) return kDefaultUniverseSize;
  return std::min(std::max<size_t>(entries / per_peer, 1), kDefaultUniverseSize);
}

size_t LimitUniverseSize(const std::vector<RdmaDevice>& devices) {
  if (getenv(kUniverseSize) != nullptr) return 0;
  const QueueDemand demand = QueueDemandFromEnvironment();
  size_t size = kDefaultUniverseSize;
  for (const RdmaDevice& device : devices) {
    if (!device.connected || device.max_cqe == 0) continue;
    size = std::min(size, UniverseSizeFor(device.max_cqe, demand));
  }
  if (size == kDefaultUniverseSize) return 0;
  return setenv(kUniverseSize, std::to_string(size).c_str(), /*replace=*/0) == 0 ? size : 0;
}

std::string WhyQueueDoesNotFit(const RdmaDevice& device) {
  if (!device.connected || device.max_cqe == 0) return "";
  const size_t wanted = NumberFromEnvironment(kUniverseSize, kDefaultUniverseSize);
  const size_t most = UniverseSizeFor(device.max_cqe, QueueDemandFromEnvironment());
  if (wanted <= most) return "";
  return absl::StrCat(kUniverseSize, " is ", wanted, ", and a completion queue of the RDMA device ",
                      device.name, " has room for ", most, " peers (", device.max_cqe,
                      " entries): set it to ", most, " at most, or leave it to Invoker");
}

std::string WhyQueueDoesNotFit(const std::string& device_name) {
  const absl::StatusOr<std::vector<RdmaDevice>> devices = ListRdmaDevices();
  if (!devices.ok()) return "";
  for (const RdmaDevice& device : *devices) {
    if (device.name == device_name) return WhyQueueDoesNotFit(device);
  }
  return "";
}

void FitUniverseSize() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Without a list there is nothing to fit to; what is wrong then shows when the fabric is
    // opened.
    const absl::StatusOr<std::vector<RdmaDevice>> devices = ListRdmaDevices();
    if (devices.ok()) LimitUniverseSize(*devices);
  });
}

}  // namespace invoker::transport
