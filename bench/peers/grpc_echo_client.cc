// The calling side of the gRPC echo, in a process of its own: gRPC shares its pollers among all
// channels of a process, and the lease of Invoker's client is one. Connects to --target, prints
// "ready", and then for each line of standard input
//   burst BYTES COUNT
// makes COUNT calls, each timed, and prints their nanoseconds in one line. In between it blocks on
// standard input. Ends when that does.

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "bench/peers/echo.grpc.pb.h"
#include "bench/raw/round_trips.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "grpc_echo_client";
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

class EchoClient {
 public:
  EchoClient(const std::string& target, bool polls) : polls_(polls) {
    grpc::ChannelArguments arguments;
    // Nothing that a caller on a quiet host would miss.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = EchoService::NewStub(
        grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments));
  }

  ~EchoClient() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) {
    if (request_.payload().size() != bytes) request_.set_payload(std::string(bytes, 'x'));
    return TimeTrips(times_ns, [&]() -> absl::Status {
      grpc::ClientContext context;
      const grpc::Status status =
          polls_ ? CallPolling(&context) : stub_->Echo(&context, request_, &response_);
      if (!status.ok()) {
        return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message());
      }
      if (response_.payload().size() != bytes) {
        return absl::DataLossError(
            absl::StrCat("the echo has ", response_.payload().size(), " bytes"));
      }
      return absl::OkStatus();
    });
  }

 private:
  grpc::Status CallPolling(grpc::ClientContext* context) {
    grpc::Status status;
    const std::unique_ptr<grpc::ClientAsyncResponseReader<EchoMessage>> reader =
        stub_->AsyncEcho(context, request_, &queue_);
    reader->Finish(&response_, &status, this);
    void* tag = nullptr;
    bool ok = false;
    while (queue_.AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC)) !=
           grpc::CompletionQueue::GOT_EVENT) {
    }
    return status;
  }

  const bool polls_;
  std::unique_ptr<EchoService::Stub> stub_;
  grpc::CompletionQueue queue_;
  EchoMessage request_;
  EchoMessage response_;
};

absl::Status Serve(EchoClient* client) {
  std::vector<int64_t> times_ns;
  std::string line;
  std::cout << "ready" << std::endl;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    uint64_t bytes = 0;
    uint64_t count = 0;
    words >> command >> bytes >> count;
    if (words.fail() || command != "burst" || bytes > kMostBytes) {
      return absl::InvalidArgumentError(absl::StrCat("not a command: '", line, "'"));
    }
    times_ns.resize(count);
    if (absl::Status status = client->Burst(bytes, absl::MakeSpan(times_ns)); !status.ok()) {
      return status;
    }
    std::cout << absl::StrJoin(times_ns, " ") << std::endl;
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app("Times calls of a gRPC echo, as it is told on standard input.", kProgram);
  std::string target;
  bool polls = false;
  app.add_option("--target", target, "the server, as gRPC names it")->required();
  app.add_flag("--poll", polls,
               "ask a completion queue over and over instead of calling the synchronous stub");
  app.footer("Exit status: 0 standard input ended, 1 a call failed, 2 bad arguments.");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  EchoClient client(target, polls);
  const absl::Status status = Serve(&client);
  if (status.ok()) return tools::kExitOk;
  LogError(absl::StrCat(target, ": ", status.message()));
  return tools::kExitFailed;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
