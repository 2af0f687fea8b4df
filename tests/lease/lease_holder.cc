// A client that takes a lease and holds it until it is killed: lease_holder SERVER session|none.
//
// Prints "held" once it has the lease and, if wanted, a session with its executor.

#include <unistd.h>

#include <cstdio>
#include <string>

#include "src/bootstrap/client.h"
#include "src/bootstrap/lease.h"
#include "src/invoke/lease.h"

namespace invoker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(120);

int Hold() {
  printf("held\n");
  fflush(stdout);
  while (true) pause();
}

int Fail(const absl::Status& status) {
  fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Main(const std::string& server, bool session) {
  if (session) {
    LeaseOptions options;
    options.wait = kPatience;
    options.client.connect_timeout = kPatience;
    auto lease = Lease::Acquire(server, options);
    return lease.ok() ? Hold() : Fail(lease.status());
  }
  auto client = bootstrap::BootstrapClient::Connect(server, kPatience);
  if (!client.ok()) return Fail(client.status());
  bootstrap::LeaseTerms terms;
  terms.executors = 1;
  terms.wait = kPatience;
  auto lease = bootstrap::Lease::Acquire(client->get(), terms, {}, kPatience);
  return lease.ok() ? Hold() : Fail(lease.status());
}

}  // namespace
}  // namespace invoker

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return invoker::Main(argv[1], std::string(argv[2]) == "session");
}
