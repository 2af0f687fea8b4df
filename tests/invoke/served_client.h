// A worker with its bootstrap service, in this process and on loopback, and clients of it.

#ifndef INVOKER_TESTS_INVOKE_SERVED_CLIENT_H_
#define INVOKER_TESTS_INVOKE_SERVED_CLIENT_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "invoker/client.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/worker/worker.h"
#include "tests/invoke/test_functions.h"

namespace invoker {

class ServedWorker {
 public:
  // `providers` override the options': one, or several with commas between them. An executor sleeps
  // when it is idle, so that tests share two cores.
  ServedWorker(const std::string& providers, WorkerOptions options = {}) {
    options.providers = absl::StrSplit(providers, ',');
    options.addresses.preferred_ip = "127.0.0.1";
    if (options.executor.hot_timeout == absl::InfiniteDuration()) {
      options.executor.hot_timeout = absl::Microseconds(100);
    }
    auto started = Worker::Start(options, MakeTestFunctions(&functions));
    EXPECT_TRUE(started.ok()) << started.status();
    worker = *std::move(started);
    bootstrap::ServerOptions server_options;
    server_options.listen = "127.0.0.1:0";
    auto serving = bootstrap::Server::Start(server_options, worker.get());
    EXPECT_TRUE(serving.ok()) << serving.status();
    server = *std::move(serving);
    worker->set_on_session_closed(
        [raw = server.get()](uint64_t lease, uint64_t handle, absl::string_view reason) {
          raw->NotifySessionClosed(lease, handle, reason);
        });
  }
  ~ServedWorker() {
    // A function that still waits would keep its executor from ending.
    if (!functions.open.HasBeenNotified()) functions.open.Notify();
    if (!functions.second_open.HasBeenNotified()) functions.second_open.Notify();
    server->Stop();
    worker->Stop(absl::Seconds(1));
    server.reset();
  }

  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    // Where many tests run at once, a worker that is alive may answer late.
    if (options.peer_timeout == ClientOptions().peer_timeout) {
      options.peer_timeout = absl::Seconds(5);
    }
    auto client = Client::Connect(server->listen_address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  TestFunctions functions;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<bootstrap::Server> server;
};

inline RemoteFunction Find(const Client& client, const std::string& name) {
  absl::StatusOr<RemoteFunction> function = client.Function(name);
  EXPECT_TRUE(function.ok()) << function.status();
  return *std::move(function);
}

inline std::string NameOfProvider(const testing::TestParamInfo<const char*>& info) {
  return info.param[0] == 's' ? "Shm" : "Tcp";
}

}  // namespace invoker

#endif  // INVOKER_TESTS_INVOKE_SERVED_CLIENT_H_
