#include "src/bootstrap/service/machine.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "src/bootstrap/service/connection_table.h"

namespace invoker::bootstrap {
namespace {

bool IsLoopback(const std::string& source) { return source.size() == 4 && source[0] == 127; }

}  // namespace

std::string MachineOf(absl::string_view peer) {
  const absl::string_view address = peer.substr(0, peer.rfind(':'));
  sockaddr_storage storage{};
  absl::string_view digits = address;
  if (absl::ConsumePrefix(&digits, "ipv4:")) {
    storage.ss_family = AF_INET;
    auto* four = reinterpret_cast<sockaddr_in*>(&storage);
    if (inet_pton(AF_INET, std::string(digits).c_str(), &four->sin_addr) != 1) {
      return std::string(address);
    }
  } else if (absl::ConsumePrefix(&digits, "ipv6:")) {
    // With the brackets go the zone, "%25eth0", and what is behind it.
    std::string text =
        absl::StrReplaceAll(digits, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
    text.resize(std::min(text.size(), text.find('%')));
    storage.ss_family = AF_INET6;
    auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
    if (inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) != 1) return std::string(address);
    if (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)) return kLoopback;
  } else {
    return std::string(address);
  }
  std::string source = SourceOf(storage);
  return IsLoopback(source) ? kLoopback : source;
}

}  // namespace invoker::bootstrap
