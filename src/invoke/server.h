// A worker in your own program.
//
//   invoker::ServerOptions options;
//   options.listen = "127.0.0.1:7000";
//   invoker::Server server(options);
//   server.Register("greet", [](std::string name) { return "hello, " + name; });
//   absl::Status status = server.Start();
//   if (status.ok()) std::cout << "serving at " << server.address() << std::endl;
//
// Functions run on the server's own threads, in this process: one call at a time on each executor,
// but for functions with a concurrency, and several executors at once. Clients connect as they do
// to invoker_server. Leases, whose executors are processes of their own, and uploads are
// invoker_server's alone.

#ifndef INVOKER_SRC_INVOKE_SERVER_H_
#define INVOKER_SRC_INVOKE_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "invoker/client_credentials.h"
#include "invoker/data_auth.h"
#include "invoker/export.h"
#include "invoker/function.h"
#include "invoker/function_entry.h"
#include "invoker/notification.h"

namespace invoker {

struct ServerOptions {
  // Where the bootstrap service listens, "HOST:PORT". Port 0 takes a free one; address() says
  // which. An address that other machines can reach needs tls_cert, or allow_plaintext.
  std::string listen = "127.0.0.1:0";
  // libfabric providers, with commas between them. "auto" or empty: every one that works, each of
  // which a helper program tries (invoker_self_test, installed with the library).
  std::string provider;
  // IP address, interface or libfabric domain to serve at; empty: the one that `listen` names, or
  // the one with the default route.
  std::string fabric_address;
  // kAuto: write-with-immediate where a client's probe proves it, else send-after-write.
  Notification notification = Notification::kAuto;
  // The least that must be under a keyed tag in every message.
  DataAuth data_auth = DataAuth::kOff;
  uint64_t window_bytes = 0;  // most for a session and direction: a power of two; 0: 2 MiB
  uint32_t executors = 1;     // threads that run functions
  // How long an executor busy-polls after the last message before it sleeps. Longer: lower latency,
  // more CPU. Infinite: it never sleeps.
  absl::Duration hot_timeout = absl::Milliseconds(1);
  // A client that is silent for so long has lost its sessions. From 100 ms to a day.
  absl::Duration peer_timeout = absl::Seconds(5);

  // Files, read again when they change. The first three are PEM.
  std::string tls_cert;          // the server's certificate chain: connections are encrypted
  std::string tls_key;           // its private key, readable by no other user
  std::string tls_client_ca;     // authorities: one of them has signed each client's certificate
  std::string token_file;        // clients must show one of the tokens in it, one a line
  std::string policy_file;       // which client may do what (docs/guide/security.md)
  bool allow_plaintext = false;  // on a trusted network

  // HOST:PORT where a page for people (/), metrics for Prometheus (/metrics) and the status
  // (/status.json) are served, to readers that `listen` would answer, too; empty: nowhere
  // (docs/guide/watching.md).
  std::string metrics;

  // "etcd://HOST:PORT,HOST:PORT/NAME": the server is a member of this cluster from Start to Drain;
  // empty: of none (docs/guide/cluster.md).
  std::string cluster;
  ClusterCredentials cluster_credentials;
  // HOST:PORT that clients in the cluster connect to; empty: address(), or, where that is every
  // interface, this machine's address on the way to etcd.
  std::string advertise;
  std::map<std::string, std::string> labels;  // for people and for placement, in the cluster
};

// Start, Drain, Stop and the destructor: one thread at a time, and none of the server's own.
class INVOKER_EXPORT Server {
 public:
  explicit Server(ServerOptions options = {});
  // Stops, and waits for nothing but functions that run.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Offers a function, before Start. A name that is not allowed or taken already makes Start fail.
  void Register(FunctionEntry entry);
  // The same with a callable of typed values, or one of bytes, `Result(Input, Output&)`: as the
  // bodies of INVOKER_FUNCTION (function.h). Several executors call it at the same time, so it must
  // be thread-safe. An exception that leaves it is the call's failure. With a concurrency, each
  // executor runs it on up to so many threads at a time, beside other functions.
  template <typename Callable>
  void Register(absl::string_view name, Callable callable, absl::string_view doc = "",
                uint32_t concurrency = 0);

  // Proves the fabrics, and serves from then on. Blocks for some 100 ms. Once: FAILED_PRECONDITION
  // the second time. INVALID_ARGUMENT: an option or a name. UNAVAILABLE: no fabric works.
  absl::Status Start();

  // Since Start has succeeded:
  // "HOST:PORT", as clients connect to it.
  const std::string& address() const;
  // "HOST:PORT" of ServerOptions::metrics, with the real port; empty: nowhere.
  std::string metrics_address() const;
  // libfabric's names of the providers that it serves, the best first.
  std::vector<std::string> providers() const;
  // Calls run so far. Blocks until each executor has ended its turn, and the function that it runs.
  uint64_t CallsRun() const;

  // Refuses new sessions and calls from now on; clients hear of it. Does not block.
  void Drain();

  // Drains, waits for the functions that run (however long they take), lets responses leave for at
  // most `limit`, and ends all sessions. Again: does nothing.
  void Stop(absl::Duration limit = absl::Seconds(5));

 private:
  class Parts;

  void Keep(FunctionEntry entry, std::shared_ptr<const void> context);

  std::unique_ptr<Parts> parts_;
};

template <typename Callable>
void Server::Register(absl::string_view name, Callable callable, absl::string_view doc,
                      uint32_t concurrency) {
  auto kept = std::make_shared<const Callable>(std::move(callable));
  FunctionEntry entry;
  entry.name = std::string(name);
  entry.doc = std::string(doc);
  entry.signature = function_internal::SignatureOf<Callable>();
  entry.concurrency = concurrency;
  entry.context = const_cast<Callable*>(kept.get());
  entry.function = [](invoker_call* call) -> int64_t {
    return function_internal::Call(*static_cast<const Callable*>(call->context), call);
  };
  Keep(std::move(entry), std::move(kept));
}

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SERVER_H_
