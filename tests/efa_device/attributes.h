// The capabilities of each generation of the EFA card, and its documented limits.

#ifndef INVOKER_TESTS_EFA_DEVICE_ATTRIBUTES_H_
#define INVOKER_TESTS_EFA_DEVICE_ATTRIBUTES_H_

#include <cstdint>
#include <string>

namespace efa_device {

// Capability bits of efadv_device_attr. The headers of older rdma-cores lack the last two.
constexpr uint32_t kCapRdmaRead = 1 << 0;
constexpr uint32_t kCapRnrRetry = 1 << 1;
constexpr uint32_t kCapCqWithSgid = 1 << 2;
constexpr uint32_t kCapRdmaWrite = 1 << 3;
constexpr uint32_t kCapUnsolicitedWriteReceive = 1 << 4;

struct Attributes {
  uint32_t part_id = 0;  // the PCI device id, which numbers the generations
  uint32_t caps = 0;

  // The same for every generation.
  uint32_t vendor_id = 0x1d0f;
  uint32_t mtu = 8760;  // bytes of a message, which is always one packet
  uint32_t max_send_requests = 4096;
  uint32_t max_receive_requests = 32768;
  uint16_t max_send_sge = 2;
  uint16_t max_rdma_sge = 1;
  uint16_t max_receive_sge = 3;
  uint16_t max_inline = 32;           // bytes
  uint32_t max_rdma_size = 1u << 30;  // bytes; 0 without RDMA
  uint32_t max_completion_entries = 32768;
  uint32_t max_queue_pairs = 1024;
  uint32_t max_completion_queues = 2048;
  uint32_t max_memory_regions = 262144;
  uint32_t max_protection_domains = 256;
  uint32_t max_address_handles = 6000;

  bool has(uint32_t cap) const { return (caps & cap) == cap; }
};

// Fills `attributes` for "efa0" (messages only), "efa1" (RDMA read), "efa2" (RDMA write as well) or
// "efa3" (unsolicited write receive as well). False if there is no such generation.
bool AttributesOf(const std::string& generation, Attributes* attributes);

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_ATTRIBUTES_H_
