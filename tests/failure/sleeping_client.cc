// sleeping_client SERVER PROVIDER FABRIC_ADDRESS PEER_TIMEOUT MICROSECONDS: lets test.sleep sleep
// for so long, one call after another, until it is killed. Writes a line once the first has been
// answered. Ends with 1 when a call fails, with 2 if its arguments are wrong.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "invoker/client.h"

namespace {

absl::Status Run(char** argv) {
  invoker::ClientOptions options;
  options.provider = argv[2];
  options.fabric_address = argv[3];
  options.credentials.plaintext = true;
  if (!absl::ParseDuration(argv[4], &options.peer_timeout)) {
    return absl::InvalidArgumentError(absl::StrCat(argv[4], " is no time: \"1s\""));
  }
  options.hot_timeout = absl::Microseconds(50);
  const auto client = invoker::Client::Connect(argv[1], options);
  if (!client.ok()) return client.status();
  const auto sleep = (*client)->Function("test.sleep");
  if (!sleep.ok()) return sleep.status();
  const uint32_t microseconds = static_cast<uint32_t>(std::strtoul(argv[5], nullptr, 10));
  std::string input(sizeof(microseconds), '\0');
  std::memcpy(input.data(), &microseconds, sizeof(microseconds));
  for (uint64_t calls = 0;; ++calls) {
    const auto response = (*client)->Invoke(*sleep, input);
    if (!response.ok()) return response.status();
    if (calls > 0) continue;
    std::puts("busy");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr,
                 "usage: sleeping_client SERVER PROVIDER FABRIC_ADDRESS PEER_TIMEOUT "
                 "MICROSECONDS\n");
    return 2;
  }
  const absl::Status status = Run(argv);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
