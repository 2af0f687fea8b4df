// Endpoint addresses in the formats of the emulated fabrics, and where the inner endpoint behind
// each is found: the address alone tells a peer all it needs.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_ADDRESS_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_ADDRESS_H_

#include <cstdint>
#include <string>

#include "tests/contract_providers/core/contract.h"

namespace contract {

// Where an inner endpoint is. With an inner IP provider: address and port. Otherwise `ipv4` is 0
// and the inner name is made from the number and the nonce. The nonce tells a restarted endpoint
// from the one that was there before.
struct Place {
  uint32_t ipv4 = 0;    // network order
  uint32_t number = 0;  // the port, host order, or 16 random bits
  uint32_t nonce = 0;
};

// The bytes of an address; always contract.address_bytes of them. What the real provider keeps for
// itself there is garbage of ours, which nobody may rely on.
std::string EncodeAddress(const Contract& contract, const Place& place, uint64_t garbage);

// False if the bytes cannot be an address of this fabric.
bool DecodeAddress(const Contract& contract, const void* raw, Place* place);

// What fi_getinfo tells as src_addr: this machine, no endpoint yet.
std::string DeviceAddress(const Contract& contract, uint32_t ipv4);

// The inner provider's name for an endpoint of this process at a place that has no IP address: that
// of a file in /dev/shm, as shm's own endpoints have them, which ends with the place.
std::string NewInnerName(const Contract& contract, const Place& place);
// The name of the endpoint that is at such a place, or one that no endpoint has.
std::string InnerName(const Contract& contract, const Place& place);

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_ADDRESS_H_
