// random_client SERVER NOTIFY SEED CALLS LIMIT [FABRIC_ADDRESS]: a client that makes so many random
// calls of up to LIMIT bytes and checks every answer. Exit status 0 if all were right.

#include <cstdio>
#include <cstdlib>

#include "tests/integration/random_calls.h"

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::fprintf(stderr, "usage: random_client SERVER NOTIFY SEED CALLS LIMIT [FABRIC_ADDRESS]\n");
    return 2;
  }
  invoker::ClientOptions options;
  options.hot_timeout = absl::Microseconds(50);
  if (!invoker::transport::ParseNotification(argv[2], &options.notification)) return 2;
  if (argc == 7) options.fabric_address = argv[6];
  const auto client = invoker::Client::Connect(argv[1], options);
  absl::Status status = client.status();
  if (status.ok()) {
    status = invoker::MakeRandomCalls(client->get(), std::strtoull(argv[3], nullptr, 10),
                                      std::atoi(argv[4]), std::strtoull(argv[5], nullptr, 10));
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
