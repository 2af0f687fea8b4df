// The other side of a TCP ping-pong. Prints its port on 127.0.0.1, takes one connection, and then
// does what each line of standard input tells it:
//   pong BYTES COUNT   receives and sends back BYTES, COUNT times
// It prints "done" and blocks on standard input, so that its core is free between turns. Ends when
// standard input does.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/peers/socket_io.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "socket_peer";
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

int Failed(absl::string_view what) {
  LogError(absl::StrCat(what, ": ", errno == 0 ? "the connection has ended" : strerror(errno)));
  return tools::kExitFailed;
}

int Serve(bool polls) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Failed("listening on 127.0.0.1");
  }
  std::cout << ntohs(address.sin_port) << std::endl;
  const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const int one = 1;
  if (peer < 0 || setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
    return Failed("accepting a connection");
  }
  std::vector<char> buffer;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    uint64_t bytes = 0;
    uint64_t count = 0;
    words >> command >> bytes >> count;
    if (words.fail() || command != "pong" || bytes == 0 || bytes > kMostBytes) {
      LogError(absl::StrCat("not a command: '", line, "'"));
      return tools::kExitFailed;
    }
    buffer.resize(bytes);
    for (uint64_t i = 0; i < count; ++i) {
      if (!ReceiveAll(peer, buffer.data(), bytes, polls)) return Failed("receiving");
      if (!SendAll(peer, buffer.data(), bytes, polls)) return Failed("sending");
    }
    std::cout << "done" << std::endl;
  }
  return tools::kExitOk;
}

int Main(int argc, char** argv) {
  CLI::App app("The other side of a TCP ping-pong, told what to do on standard input.", kProgram);
  bool polls = false;
  app.add_flag("--poll", polls, "ask the kernel over and over instead of sleeping in it");
  app.footer("Exit status: 0 standard input ended, 1 the connection failed, 2 bad arguments.");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  return Serve(polls);
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
