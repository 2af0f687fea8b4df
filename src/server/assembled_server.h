// A worker and the bootstrap service in front of it: what every program that serves consists of.
// invoker::Server, which Python's serve() uses, and invoker_server are made from it.
//
// Start, Serve, Drain, Stop and the destructor: one thread at a time, and none of the server's own.

#ifndef INVOKER_SRC_SERVER_ASSEMBLED_SERVER_H_
#define INVOKER_SRC_SERVER_ASSEMBLED_SERVER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/bootstrap/service/server.h"
#include "src/cluster/registration.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/worker/worker.h"
#include "src/security/access_control.h"
#include "src/status/http_server.h"

namespace invoker {

struct AssemblyOptions {
  WorkerOptions worker;              // served where service.listen is, unless it has an address
  bootstrap::ServerOptions service;  // but for its heartbeats and security.access
  // A client that is silent for so long has lost its sessions.
  absl::Duration peer_timeout = absl::Seconds(5);
  security::AccessOptions access;
  // Where the server is registered while clients can reach it.
  cluster::RegistrationOptions cluster;
  // HOST:PORT of the metrics and of the page for people; empty: none.
  std::string metrics;
  // MakeOperationsService's.
  std::function<void()> drain;
};

// What sessions do. Any thread; must not block.
struct ServerEvents {
  Worker::SessionClosed on_session_closed;
  Worker::Downgraded on_downgraded;
  Worker::EndpointNote on_endpoint;
};

// What a program offers beside the worker's shared executors, such as leases.
class ServerExtension {
 public:
  virtual ~ServerExtension() = default;

  // Answers clients instead of the worker.
  virtual bootstrap::SessionHost* host() = 0;
  // Services beside the bootstrap's.
  virtual std::vector<bootstrap::ServiceFactory> services() = 0;
  // Told once, when clients can reach the server: both are as the worker's of these names.
  virtual void Watch(Worker::SessionClosed on_session_closed, Worker::Downgraded on_downgraded) = 0;

  // The same as the worker's. Stop returns before the worker's Stop is called.
  virtual void Drain() = 0;
  virtual void Stop(absl::Duration limit) = 0;
};

class AssembledServer {
 public:
  // Reads the files of `options.access`, then proves the fabrics and starts the worker. No client
  // can reach it yet. What `functions` point into must outlive the server.
  static absl::StatusOr<std::unique_ptr<AssembledServer>> Start(AssemblyOptions options,
                                                                FunctionRegistry functions);
  // Stops, and waits for nothing but functions that run.
  ~AssembledServer();
  AssembledServer(const AssembledServer&) = delete;
  AssembledServer& operator=(const AssembledServer&) = delete;

  // Lets clients in. `extension` may be nullptr. Once. Registers in the cluster, too, and does not
  // wait for that.
  absl::Status Serve(std::unique_ptr<ServerExtension> extension, ServerEvents events);

  Worker& worker() { return *worker_; }
  security::AccessControl& access() { return *access_; }
  // What clients are told. Takes every lock that a request takes.
  bootstrap::WorkerInfo Info() const { return host()->Info(); }
  // Since Serve has succeeded.
  const bootstrap::Server& service() const { return *service_; }
  // HOST:PORT; empty: there are no metrics.
  std::string metrics_address() const { return metrics_ == nullptr ? "" : metrics_->address(); }
  // Does not wait for executors. Any thread.
  bootstrap::ServerStatus Status() const;

  // Refuses new sessions and calls from now on; clients hear of it. Does not block.
  void Drain();
  // Drains, waits for the functions that run (however long they take), lets responses leave for at
  // most `limit`, and ends all sessions. Again: does nothing.
  void Stop(absl::Duration limit);

 private:
  AssembledServer(AssemblyOptions options, std::unique_ptr<security::AccessControl> access,
                  std::unique_ptr<Worker> worker);

  absl::Status Register();
  absl::Status StartMetrics();

  bootstrap::SessionHost* host() const {
    return extension_ != nullptr ? extension_->host() : worker_.get();
  }

  AssemblyOptions options_;
  std::atomic<bool> draining_{false};
  bool stopped_ = false;
  const absl::Time started_ = absl::Now();
  std::atomic<bool> serving_{false};  // service_ is there, and stays
  ServerEvents events_;
  const std::unique_ptr<security::AccessControl> access_;
  const std::unique_ptr<Worker> worker_;
  std::unique_ptr<ServerExtension> extension_;           // uses the worker
  std::unique_ptr<bootstrap::Server> service_;           // uses all of the above
  std::unique_ptr<cluster::Registration> registration_;  // nullptr: in no cluster
  std::unique_ptr<status::HttpServer> metrics_;          // nullptr: none
};

}  // namespace invoker

#endif  // INVOKER_SRC_SERVER_ASSEMBLED_SERVER_H_
