// Many clients of one worker that do nothing, in a process of their own: what an executor has when
// most of its sessions idle. Prints "holding", opens what --mode says, --count of it or as many as
// can be had, and prints "ready N" or "ready N REASON". Ends when standard input does.
//   sessions   clients of the worker at --server, each with its own endpoint, lease and session
//   leases     the bootstrap alone: each a gRPC channel and a lease
//   raw        plain libfabric endpoints. Each prints what it says of itself, reads what the other
//              side says, and makes one round trip

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/harness/client_options.h"
#include "bench/harness/options.h"
#include "bench/raw/raw_endpoint.h"
#include "invoker/client.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "session_holder";
constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr size_t kRawBytes = 4096;

struct Settings {
  std::string provider;
  std::string address;
  std::string server;
  std::string mode = "sessions";
  uint32_t count = 1;
};

struct ClientLease {
  std::unique_ptr<bootstrap::BootstrapClient> client;
  std::unique_ptr<bootstrap::Lease> lease;
};

class Holder {
 public:
  explicit Holder(const Settings& settings) : settings_(settings) {}

  // One more.
  absl::Status Add() {
    if (settings_.mode == "sessions") return AddSession();
    return settings_.mode == "leases" ? AddLease() : AddRaw();
  }

 private:
  absl::Status AddSession() {
    ClientOptions options = OptionsFor(settings_.provider);
    options.fabric_address = settings_.address;
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(settings_.server, options);
    if (!client.ok()) return client.status();
    clients_.push_back(*std::move(client));
    return absl::OkStatus();
  }

  absl::Status AddLease() {
    auto client = bootstrap::BootstrapClient::Connect(settings_.server, kPatience);
    if (!client.ok()) return client.status();
    auto lease = bootstrap::Lease::Acquire(client->get(), {}, {}, kPatience);
    if (!lease.ok()) return lease.status();
    leases_.push_back({*std::move(client), *std::move(lease)});
    return absl::OkStatus();
  }

  absl::Status AddRaw() {
    auto raw = RawEndpoint::Open(settings_.provider, settings_.address, kRawBytes);
    if (!raw.ok()) return raw.status();
    std::cout << (*raw)->Describe() << std::endl;
    std::string hub;
    if (!std::getline(std::cin, hub)) return absl::CancelledError("standard input has ended");
    absl::Status status = (*raw)->Meet(hub);
    if (status.ok()) status = (*raw)->Write(1, 1);
    if (status.ok()) status = (*raw)->Await().status();
    if (status.ok()) status = (*raw)->Drain();
    raws_.push_back(*std::move(raw));
    return status;
  }

  const Settings& settings_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<ClientLease> leases_;
  std::vector<std::unique_ptr<RawEndpoint>> raws_;
};

void Hold(const Settings& settings) {
  Holder holder(settings);
  std::cout << "holding" << std::endl;
  uint32_t held = 0;
  absl::Status status;
  while (held < settings.count && (status = holder.Add()).ok()) ++held;
  std::cout << "ready " << held;
  if (!status.ok()) std::cout << " " << status.message();
  std::cout << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Holds many idle clients of one worker, for bench/peer_scale.", kProgram);
  Settings settings;
  app.add_option("--provider", settings.provider, "libfabric's name")->required();
  app.add_option("--address", settings.address, "our fabric address, where it is an IP address");
  app.add_option("--server", settings.server, "the worker's HOST:PORT");
  app.add_option("--mode", settings.mode, "what to hold")
      ->check(CLI::IsMember({"sessions", "leases", "raw"}))
      ->capture_default_str();
  app.add_option("--count", settings.count, "how many")->capture_default_str();
  app.footer("Exit status: 0 standard input ended, 2 bad arguments.");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  // Every endpoint has some descriptors.
  AllowDescriptors();
  Hold(settings);
  return tools::kExitOk;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
