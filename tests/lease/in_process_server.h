// All that invoker_server has for leases, in the test's own process, so that the test can look at
// what the server's endpoints hold. Executors are processes of their own, and so must clients be:
// shm does not work within one process.

#ifndef INVOKER_TESTS_LEASE_IN_PROCESS_SERVER_H_
#define INVOKER_TESTS_LEASE_IN_PROCESS_SERVER_H_

#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/accounting/usage_book.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/worker/worker.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "src/lease/lease_host.h"
#include "src/lease/spawner_source.h"

namespace invoker {

class InProcessServer {
 public:
  // `library`, if any, is one more that executors load.
  static absl::StatusOr<std::unique_ptr<InProcessServer>> Start(std::vector<std::string> providers,
                                                                uint32_t cores,
                                                                const std::string& library = "") {
    std::unique_ptr<InProcessServer> server(new InProcessServer);
    absl::Status status = server->Open(std::move(providers), cores, library);
    if (!status.ok()) return status;
    return server;
  }

  ~InProcessServer() {
    if (worker_ != nullptr) worker_->set_on_session_closed(nullptr);
    if (host_ != nullptr) host_->set_events({});
    if (server_ != nullptr) server_->Stop();
  }

  const std::string& address() const { return server_->listen_address(); }
  Worker& worker() { return *worker_; }
  UsageBook& book() { return *book_; }
  bootstrap::WorkerInfo Info() const { return host_->Info(); }
  // Leases whose executor has ended by itself.
  int lost() const { return lost_; }

 private:
  static constexpr char kFunctions[] = "tests/functions/test_functions.so";
  // Executors outnumber cores.
  static constexpr absl::Duration kHotTimeout = absl::Microseconds(100);

  InProcessServer() = default;

  absl::Status Open(std::vector<std::string> providers, uint32_t cores, const std::string& more) {
    absl::StatusOr<std::unique_ptr<FunctionLibrary>> library = FunctionLibrary::Load(kFunctions);
    if (!library.ok()) return library.status();
    library_ = *std::move(library);
    FunctionRegistry functions;
    if (absl::Status status = library_->RegisterAll(&functions); !status.ok()) return status;
    WorkerOptions options;
    options.providers = std::move(providers);
    options.addresses.preferred_ip = "127.0.0.1";
    options.executor.hot_timeout = kHotTimeout;
    absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options, std::move(functions));
    if (!worker.ok()) return worker.status();
    worker_ = *std::move(worker);

    SpawnerOptions spawner;
    spawner.executor_path = "tools/invoker_executor";
    spawner.libraries = {kFunctions};
    if (!more.empty()) spawner.libraries.push_back(more);
    spawner.worker = options;
    // Nobody else's, so that every fabric can be served.
    if (const passwd* self = getpwuid(geteuid()); self != nullptr) spawner.user = self->pw_name;
    spawner_ =
        std::make_unique<SpawnerSource>([spawner] { return ExecutorSpawner::Start(spawner); });
    if (absl::Status status = spawner_->Get().status(); !status.ok()) return status;

    absl::StatusOr<std::unique_ptr<UsageBook>> book = UsageBook::Open({});
    if (!book.ok()) return book.status();
    book_ = *std::move(book);
    LeasePolicy policy;
    policy.total = {cores, uint64_t{cores} << 30};
    policy.hot_timeout = kHotTimeout;
    host_ = std::make_unique<LeaseHost>(policy, LeaseHost::Shared{worker_.get(), nullptr},
                                        spawner_.get(), book_.get());
    bootstrap::ServerOptions bootstrap;
    bootstrap.listen = "127.0.0.1:0";
    absl::StatusOr<std::unique_ptr<bootstrap::Server>> server =
        bootstrap::Server::Start(bootstrap, host_.get());
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    const auto closed = [this](uint64_t lease, uint64_t handle, absl::string_view reason) {
      server_->NotifySessionClosed(lease, handle, reason);
    };
    worker_->set_on_session_closed(closed);
    host_->set_events({closed, nullptr, [this](uint64_t, absl::string_view) { ++lost_; }});
    return absl::OkStatus();
  }

  // Each uses those before it.
  std::unique_ptr<FunctionLibrary> library_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<SpawnerSource> spawner_;
  std::unique_ptr<UsageBook> book_;
  std::atomic<int> lost_{0};
  std::unique_ptr<LeaseHost> host_;
  std::unique_ptr<bootstrap::Server> server_;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_LEASE_IN_PROCESS_SERVER_H_
