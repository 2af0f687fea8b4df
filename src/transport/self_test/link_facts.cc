#include "src/transport/self_test/link_facts.h"

#include <net/if.h>

#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace invoker::transport {
namespace {

// One line of the kernel's description of the interface; "" if it has none.
std::string Attribute(const std::string& interface, const char* name) {
  std::ifstream file(absl::StrCat("/sys/class/net/", interface, "/", name));
  std::string line;
  std::getline(file, line);
  return line;
}

void AddFromLibfabric(const fi_info& info, LinkFacts* facts) {
  if (info.nic == nullptr) return;
  if (info.nic->device_attr != nullptr && info.nic->device_attr->name != nullptr) {
    facts->device = info.nic->device_attr->name;
  }
  if (info.nic->link_attr == nullptr) return;
  const fi_link_attr& link = *info.nic->link_attr;
  if (link.state == FI_LINK_UP) facts->state = "up";
  if (link.state == FI_LINK_DOWN) facts->state = "down";
  if (link.network_type != nullptr) facts->type = link.network_type;
  facts->bits_per_second = link.speed;
  facts->mtu = link.mtu;
}

// A domain of an RDMA device has the device's name, alone or with an addition behind a hyphen.
bool IsDomainOf(const fi_info& info, const RdmaDevice& device) {
  if (info.domain_attr->name == nullptr || device.name.empty()) return false;
  absl::string_view domain = info.domain_attr->name;
  return absl::ConsumePrefix(&domain, device.name) && (domain.empty() || domain.front() == '-');
}

void AddFromDevice(const RdmaDevice& device, const std::string& interface, LinkFacts* facts) {
  facts->device = device.name;
  for (const RdmaPort& port : device.ports) {
    if (device.ports.size() > 1 && port.network_interface != interface) continue;
    if (facts->state.empty()) facts->state = port.state == "active" ? "up" : port.state;
    if (facts->type.empty()) facts->type = port.link_layer;
    if (facts->mtu == 0) facts->mtu = port.mtu_bytes;
    if (facts->bits_per_second == 0) {
      facts->bits_per_second = static_cast<uint64_t>(port.gigabits_per_second * 1e9);
    }
  }
}

void AddFromKernel(const std::string& interface, LinkFacts* facts) {
  if (interface.empty()) return;
  const std::string state = Attribute(interface, "operstate");
  // The kernel says "unknown" of an interface without a carrier to ask, loopback for one.
  if (facts->state.empty() && state != "unknown") facts->state = state;
  uint64_t number = 0;
  if (facts->mtu == 0 && absl::SimpleAtoi(Attribute(interface, "mtu"), &number)) {
    facts->mtu = number;
  }
  int64_t megabits = 0;  // -1: not known
  if (facts->bits_per_second == 0 && absl::SimpleAtoi(Attribute(interface, "speed"), &megabits) &&
      megabits > 0) {
    facts->bits_per_second = static_cast<uint64_t>(megabits) * 1'000'000;
  }
}

}  // namespace

std::string InterfaceOf(const std::string& address) {
  struct if_nameindex* const interfaces = if_nameindex();
  if (interfaces == nullptr) return "";
  std::string found;
  for (const struct if_nameindex* each = interfaces; each->if_index != 0 && found.empty(); ++each) {
    for (const IpAddress& own : AddressesOf(each->if_name)) {
      if (own.text == address) found = each->if_name;
    }
  }
  if_freenameindex(interfaces);
  return found;
}

LinkFacts FindLinkFacts(const fi_info& info, const std::string& interface,
                        absl::Span<const RdmaDevice> devices) {
  LinkFacts facts;
  AddFromLibfabric(info, &facts);
  for (const RdmaDevice& device : devices) {
    if (IsDomainOf(info, device)) AddFromDevice(device, interface, &facts);
  }
  AddFromKernel(interface, &facts);
  return facts;
}

}  // namespace invoker::transport
