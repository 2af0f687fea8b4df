#include "tests/efa_device/attributes.h"

namespace efa_device {

bool AttributesOf(const std::string& generation, Attributes* attributes) {
  *attributes = Attributes();
  attributes->caps = kCapRnrRetry | kCapCqWithSgid;
  if (generation == "efa0") {
    attributes->part_id = 0xefa0;
    attributes->max_rdma_size = 0;
  } else if (generation == "efa1") {
    attributes->part_id = 0xefa1;
    attributes->caps |= kCapRdmaRead;
  } else if (generation == "efa2") {
    attributes->part_id = 0xefa2;
    attributes->caps |= kCapRdmaRead | kCapRdmaWrite;
  } else if (generation == "efa3") {
    attributes->part_id = 0xefa3;
    attributes->caps |= kCapRdmaRead | kCapRdmaWrite | kCapUnsolicitedWriteReceive;
  } else {
    return false;
  }
  return true;
}

}  // namespace efa_device
