// A gRPC unary echo on loopback TCP and on a UNIX socket, in each way that a C++ server can be
// written. Prints the port when it is ready; ends on SIGTERM or SIGINT.

#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <signal.h>

#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/peers/echo.grpc.pb.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "grpc_echo_server";

struct Settings {
  std::string flavor = "sync";
  std::string socket;
};

class SyncEcho final : public EchoService::Service {
  grpc::Status Echo(grpc::ServerContext*, const EchoMessage* request,
                    EchoMessage* response) override {
    response->set_payload(request->payload());
    return grpc::Status::OK;
  }
};

class CallbackEcho final : public EchoService::CallbackService {
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const EchoMessage* request,
                                 EchoMessage* response) override {
    response->set_payload(request->payload());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// One call after the other on a completion queue, which the thread waits on or, if it `polls`, asks
// over and over.
class QueueEcho {
 public:
  QueueEcho(EchoService::AsyncService* service, std::unique_ptr<grpc::ServerCompletionQueue> queue,
            bool polls)
      : service_(service), queue_(std::move(queue)), polls_(polls) {}

  // Until the server shuts down.
  void Serve() {
    Await();
    const gpr_timespec until =
        polls_ ? gpr_time_0(GPR_CLOCK_MONOTONIC) : gpr_inf_future(GPR_CLOCK_MONOTONIC);
    void* tag = nullptr;
    bool ok = false;
    while (true) {
      const auto next = queue_->AsyncNext(&tag, &ok, until);
      if (next == grpc::CompletionQueue::SHUTDOWN) return;
      if (next == grpc::CompletionQueue::TIMEOUT) continue;
      std::unique_ptr<Call> call(static_cast<Call*>(tag));
      if (call->is_answered || !ok) continue;
      // The next call is awaited before this one is answered, as in every such server.
      Await();
      call->is_answered = true;
      call->response.mutable_payload()->swap(*call->request.mutable_payload());
      call->responder.Finish(call->response, grpc::Status::OK, call.get());
      call.release();
    }
  }

  void Shutdown() { queue_->Shutdown(); }

 private:
  struct Call {
    Call() : responder(&context) {}

    grpc::ServerContext context;
    EchoMessage request;
    EchoMessage response;
    grpc::ServerAsyncResponseWriter<EchoMessage> responder;
    bool is_answered = false;
  };

  void Await() {
    Call* call = new Call;
    service_->RequestEcho(&call->context, &call->request, &call->responder, queue_.get(),
                          queue_.get(), call);
  }

  EchoService::AsyncService* service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const bool polls_;
};

bool Serve(const Settings& settings, const sigset_t& signals) {
  SyncEcho sync;
  CallbackEcho callback;
  EchoService::AsyncService async;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  if (!settings.socket.empty()) {
    builder.AddListeningPort(absl::StrCat("unix:", settings.socket),
                             grpc::InsecureServerCredentials());
  }
  std::unique_ptr<QueueEcho> queue;
  if (settings.flavor == "sync") {
    builder.RegisterService(&sync);
  } else if (settings.flavor == "callback") {
    builder.RegisterService(&callback);
  } else {
    builder.RegisterService(&async);
    queue = std::make_unique<QueueEcho>(&async, builder.AddCompletionQueue(),
                                        settings.flavor == "polled_queue");
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    LogError(absl::StrCat("cannot listen on 127.0.0.1", settings.socket.empty() ? "" : " and ",
                          settings.socket));
    return false;
  }
  std::thread serving;
  if (queue != nullptr) serving = std::thread([&queue] { queue->Serve(); });
  std::cout << port << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(gpr_time_0(GPR_CLOCK_MONOTONIC));
  if (queue != nullptr) {
    queue->Shutdown();
    serving.join();
  }
  return true;
}

int Main(int argc, char** argv) {
  // For all threads: only sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  CLI::App app("A gRPC unary echo. Prints its TCP port on 127.0.0.1; ends on SIGTERM or SIGINT.",
               kProgram);
  Settings settings;
  app.add_option("--flavor", settings.flavor, "how the server is written")
      ->check(CLI::IsMember({"sync", "callback", "completion_queue", "polled_queue"}))
      ->capture_default_str();
  app.add_option("--socket", settings.socket, "also listen on this UNIX socket")->type_name("PATH");
  app.footer("Exit status: 0 stopped by a signal, 1 could not serve, 2 bad arguments.");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  return Serve(settings, signals) ? tools::kExitOk : tools::kExitFailed;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
