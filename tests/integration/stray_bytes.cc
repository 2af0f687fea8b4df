#include "tests/integration/stray_bytes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace invoker {
namespace {

// /proc/net/tcp's name of a socket that listens.
constexpr char kListens[] = "0A";

std::string RandomBytes(size_t size, std::mt19937_64* random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

std::string StrayBytes(std::mt19937_64* random) {
  switch ((*random)() % 3) {
    case 0:
      return absl::StrCat("GET /", (*random)(), " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    case 1:
      // A record of TLS 1.0 with a ClientHello of 512 bytes.
      return std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
             RandomBytes(506, random);
    default:
      return RandomBytes((*random)() % 300, random);
  }
}

bool Throw(uint16_t port, const std::string& bytes) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  // A listener whose queue is full answers nothing.
  const timeval limit = {0, 100'000};
  setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool thrown =
      connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0;
  close(descriptor);
  return thrown;
}

}  // namespace

std::vector<uint16_t> ListeningPorts(pid_t pid) {
  std::set<std::string> sockets;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (absl::StartsWith(target, "socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  std::vector<uint16_t> ports;
  std::ifstream table(absl::StrCat("/proc/", pid, "/net/tcp"));
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() < 10 || fields[3] != kListens || sockets.count(fields[9]) == 0) continue;
    const std::vector<std::string> local = absl::StrSplit(fields[1], ':');
    ports.push_back(static_cast<uint16_t>(std::stoul(local.back(), nullptr, 16)));
  }
  return ports;
}

size_t ThrowStrayBytes(const std::vector<uint16_t>& ports, size_t connections, uint64_t seed) {
  std::mt19937_64 random(seed);
  size_t thrown = 0;
  for (size_t i = 0; i < connections; ++i) {
    for (const uint16_t port : ports) {
      if (Throw(port, StrayBytes(&random))) ++thrown;
    }
  }
  return thrown;
}

}  // namespace invoker
