#include "src/invoke/fabrics/host_identity.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

namespace invoker {

uint64_t HostIdentity() {
  std::string identity;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> identity;
  struct stat shared_memory = {};
  if (stat("/dev/shm", &shared_memory) == 0) {
    identity += std::to_string(shared_memory.st_dev);
  }
  // FNV-1a: the same in every process and release, unlike a seeded hash.
  uint64_t hash = 14695981039346656037u;
  for (const char byte : identity) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 1099511628211u;
  }
  return hash;
}

}  // namespace invoker
