// What there is to say to a person about one fabric: what it claims, what a self-test saw, what
// Invoker will do on it, and why. Any thread, one at a time (libfabric's names of constants come
// from one buffer).

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_FABRIC_REPORT_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_FABRIC_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "src/transport/discovery/discovery_list.h"
#include "src/transport/discovery/rdma_device.h"
#include "src/transport/self_test/self_test.h"

namespace invoker::transport {

// The network interface or device under the fabric. Empty and 0: nobody knows.
struct LinkFacts {
  std::string state;  // "up", "down"
  std::string type;   // "Ethernet", "InfiniBand", ...
  uint64_t bits_per_second = 0;
  uint64_t mtu = 0;    // bytes
  std::string device;  // the RDMA device, if there is one
};

// What fi_getinfo returned. Names are libfabric's without "FI_".
struct FabricClaims {
  std::vector<std::string> capabilities;
  std::vector<std::string> transmit_order;
  std::vector<std::string> receive_order;
  std::vector<std::string> memory_modes;
  std::vector<std::string> modes;
  std::string data_progress;
  uint64_t cq_data_bytes = 0;
  uint64_t key_bytes = 0;
  uint64_t inject_bytes = 0;
  uint64_t max_message_bytes = 0;
  uint64_t transmit_depth = 0;
  uint64_t receive_depth = 0;
};

struct FabricReport {
  std::string provider;
  std::string provider_version;
  std::string protocol;
  uint32_t protocol_version = 0;
  std::string fabric;
  std::string domain;
  std::string interface;       // "" where there is none
  std::string address;         // an IP address, or "" where the fabric has other ones
  std::string address_format;  // libfabric's name without "FI_"
  LinkFacts link;
  FabricClaims claims;
  absl::Status usable;                     // or why Invoker cannot use it
  Profile profile;                         // if usable
  std::optional<SelfTestResult> observed;  // if it was asked for
};

// `devices` fill in what libfabric does not say of the link.
FabricReport DescribeFabric(const ListedFabric& listed, absl::Span<const RdmaDevice> devices);

// What selects this fabric and no other.
FabricRequest RequestFor(const FabricReport& report);

// One of Invoker's choices on a fabric, and one sentence of reason.
struct Decision {
  std::string choice;
  std::string why;
};

// Only for a usable fabric. With an observation, that decides; without one, a probe will.
Decision DecideNotification(const FabricReport& report);
Decision DecideFallback(const FabricReport& report);  // if a session's probe fails
Decision DecideKeys(const FabricReport& report);
Decision DecideAddressing(const FabricReport& report);
Decision DecideAtomics(const FabricReport& report);
Decision DecideWait(const FabricReport& report);
Decision DecideMethod(const FabricReport& report);  // for messages that are not injected whole

// For people: "native", "message", "failed", "not tried".
std::string AtomicsName(AtomicsSeen atomics);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_FABRIC_REPORT_H_
