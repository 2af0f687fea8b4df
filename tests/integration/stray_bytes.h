// Short connections full of what does not belong there, to every TCP port of a process.

#ifndef INVOKER_TESTS_INTEGRATION_STRAY_BYTES_H_
#define INVOKER_TESTS_INTEGRATION_STRAY_BYTES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace invoker {

// The ports at which the process listens on addresses of IPv4.
std::vector<uint16_t> ListeningPorts(pid_t pid);

// Makes so many connections to each of these ports of 127.0.0.1, one after the other, and sends
// HTTP, the beginning of TLS, or random bytes in each. Returns how many were accepted. What the
// bytes are depends on the seed alone.
size_t ThrowStrayBytes(const std::vector<uint16_t>& ports, size_t connections, uint64_t seed);

}  // namespace invoker

#endif  // INVOKER_TESTS_INTEGRATION_STRAY_BYTES_H_
