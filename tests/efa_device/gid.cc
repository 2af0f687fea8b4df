#include "tests/efa_device/gid.h"

#include <arpa/inet.h>
#include <sys/stat.h>

#include <cstdlib>

namespace efa_device {

bool HostGid(Gid* gid) {
  if (const char* text = getenv("INVOKER_EFA_DEVICE_GID")) {
    return inet_pton(AF_INET6, text, gid->data()) == 1;
  }
  struct stat network;
  if (stat("/proc/self/ns/net", &network) != 0) return false;
  // A link-local address, as the card's own are.
  *gid = Gid{0xfe, 0x80};
  for (int i = 0; i < 8; ++i) {
    (*gid)[15 - i] = static_cast<uint8_t>(static_cast<uint64_t>(network.st_ino) >> (8 * i));
  }
  return true;
}

std::string ToHex(const Gid& gid) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : gid) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace efa_device
