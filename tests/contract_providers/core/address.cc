#include "tests/contract_providers/core/address.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "src/transport/base/shared_files.h"
#include "tests/contract_providers/core/prng.h"

namespace contract {
namespace {

// struct efa_ep_addr of prov/efa/src/rxr/rdm_proto_v4.h in 1.17.0 and prov/efa/src/efa_av.h in
// 2.6.0. The last field is a pointer there, for lists within the provider.
struct EfaAddress {
  uint8_t gid[16];
  uint16_t qpn;
  uint16_t pad;
  uint32_t qkey;
  uint64_t provider_private;
};
static_assert(sizeof(EfaAddress) == 32);

// struct gnix_ep_name of prov/gni/include/gnix.h in 1.17.0; the bit fields are laid out as GCC
// does it on x86-64.
struct GniAddress {
  uint32_t device_address;
  uint32_t cdm_id;
  uint32_t name_type_and_cm_nic;  // 8 bits name type, 24 bits cm_nic_cdm_id
  uint32_t cookie;
  uint32_t rx_context;  // 8 bits count, 12 bits key offset, 12 unused
  uint32_t unused;
  uint64_t reserved[3];
};
static_assert(sizeof(GniAddress) == 48);

// GNIX_EPN_TYPE_UNBOUND of the same header.
constexpr uint32_t kGniUnbound = 1;

// One value per machine, as one device has it.
uint64_t MachineNumber() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  uint64_t number = 1;
  for (const char* c = name; *c != '\0'; ++c) number = Mix(number, static_cast<uint8_t>(*c));
  return number;
}

void FillGid(uint32_t ipv4, uint8_t* gid) {
  memset(gid, 0, 16);
  if (ipv4 != 0) {
    // An IPv4-mapped address.
    gid[10] = gid[11] = 0xff;
    memcpy(gid + 12, &ipv4, sizeof(ipv4));
    return;
  }
  gid[0] = 0xfe;
  gid[1] = 0x80;
  const uint64_t machine = MachineNumber();
  memcpy(gid + 8, &machine, sizeof(machine));
}

std::string EndOfName(const Contract& contract, const Place& place) {
  char end[64];
  std::snprintf(end, sizeof(end), "%s-%x-%x",
                contract.family == AddressFamily::kEfa ? "efa" : "gni", place.number, place.nonce);
  return end;
}

uint32_t GniDevice(uint32_t ipv4) {
  return ipv4 != 0 ? ipv4 : static_cast<uint32_t>(MachineNumber());
}

}  // namespace

std::string EncodeAddress(const Contract& contract, const Place& place, uint64_t garbage) {
  std::string bytes(contract.address_bytes, '\0');
  if (contract.family == AddressFamily::kEfa) {
    EfaAddress address = {};
    FillGid(place.ipv4, address.gid);
    address.qpn = static_cast<uint16_t>(place.number);
    address.qkey = place.nonce;
    address.provider_private = garbage;
    memcpy(bytes.data(), &address, sizeof(address));
  } else {
    GniAddress address = {};
    address.device_address = GniDevice(place.ipv4);
    address.cdm_id = place.nonce;
    address.name_type_and_cm_nic = kGniUnbound | place.number << 8;
    address.cookie = static_cast<uint32_t>(Mix(place.nonce, 1));
    memcpy(bytes.data(), &address, sizeof(address));
  }
  return bytes;
}

bool DecodeAddress(const Contract& contract, const void* raw, Place* place) {
  *place = {};
  if (contract.family == AddressFamily::kEfa) {
    EfaAddress address;
    memcpy(&address, raw, sizeof(address));
    uint8_t local[16];
    FillGid(0, local);
    const bool is_ip = address.gid[10] == 0xff && address.gid[11] == 0xff;
    if (is_ip) {
      memcpy(&place->ipv4, address.gid + 12, sizeof(place->ipv4));
    } else if (memcmp(address.gid, local, sizeof(local)) != 0) {
      return false;
    }
    place->number = address.qpn;
    place->nonce = address.qkey;
    return place->number != 0;
  }
  GniAddress address;
  memcpy(&address, raw, sizeof(address));
  place->number = address.name_type_and_cm_nic >> 8;
  place->nonce = address.cdm_id;
  if (address.device_address != GniDevice(0)) place->ipv4 = address.device_address;
  return (address.name_type_and_cm_nic & 0xff) == kGniUnbound && place->number != 0 &&
         address.cookie == static_cast<uint32_t>(Mix(place->nonce, 1));
}

std::string DeviceAddress(const Contract& contract, uint32_t ipv4) {
  Place device;
  device.ipv4 = ipv4;
  std::string bytes = EncodeAddress(contract, device, 0);
  if (contract.family == AddressFamily::kGni) {
    // Only the device is known.
    memset(bytes.data() + sizeof(uint32_t), 0, bytes.size() - sizeof(uint32_t));
  }
  return bytes;
}

std::string NewInnerName(const Contract& contract, const Place& place) {
  return invoker::transport::NewSharedFileName(EndOfName(contract, place));
}

std::string InnerName(const Contract& contract, const Place& place) {
  const std::string end = "." + EndOfName(contract, place);
  std::string name = end;
  DIR* const directory = opendir("/dev/shm");
  if (directory == nullptr) return name;
  while (const dirent* entry = readdir(directory)) {
    const std::string other = entry->d_name;
    if (other.size() > end.size() && other.compare(other.size() - end.size(), end.size(), end) == 0)
      name = other;
  }
  closedir(directory);
  return name;
}

}  // namespace contract
