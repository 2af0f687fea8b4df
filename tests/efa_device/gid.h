// A GID names a host: the processes of one network namespace have the same, as the processes of
// one machine share a card.

#ifndef INVOKER_TESTS_EFA_DEVICE_GID_H_
#define INVOKER_TESTS_EFA_DEVICE_GID_H_

#include <array>
#include <cstdint>
#include <string>

namespace efa_device {

using Gid = std::array<uint8_t, 16>;

// The GID of this process's host: INVOKER_EFA_DEVICE_GID if that is set (an IPv6 address), or one
// made from the network namespace. False if neither can be had.
bool HostGid(Gid* gid);

// 32 hexadecimal digits, which also name the host's directory.
std::string ToHex(const Gid& gid);

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_GID_H_
