#include "bench/programs/grpc_contender.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace invoker::bench {
namespace {

class GrpcContender final : public Contender {
 public:
  GrpcContender(std::string name, std::unique_ptr<ServerProcess> client, ServerProcess* server)
      : name_(std::move(name)), client_(std::move(client)), server_(server) {}

  const std::string& name() const override { return name_; }

  absl::Status Begin() override {
    if (!paused_.ok()) return paused_;
    return server_->Resume();
  }
  void End() override { paused_ = server_->Pause(); }

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    const absl::Status told =
        client_->WriteLine(absl::StrCat("burst ", bytes, " ", times_ns.size()));
    if (!told.ok()) return told;
    const absl::StatusOr<std::string> answer = client_->ReadLine();
    if (!answer.ok()) return answer.status();
    const std::vector<absl::string_view> words = absl::StrSplit(*answer, ' ');
    bool is_right = words.size() == times_ns.size();
    for (size_t i = 0; is_right && i < words.size(); ++i) {
      is_right = absl::SimpleAtoi(words[i], &times_ns[i]);
    }
    return is_right ? absl::OkStatus()
                    : absl::InternalError("grpc_echo_client printed something else than its times");
  }

 private:
  const std::string name_;
  const std::unique_ptr<ServerProcess> client_;  // blocks between its bursts
  ServerProcess* const server_;
  absl::Status paused_;  // the last End's, which cannot say it
};

}  // namespace

const std::vector<std::string>& GrpcServers::Flavors() {
  static const auto* flavors =
      new std::vector<std::string>{"sync", "callback", "completion_queue", kPollingFlavor};
  return *flavors;
}

std::string GrpcServers::Way::Name() const {
  return absl::StrCat("grpc_", server, unix_socket ? "_unix" : "_tcp", polled ? "_polled" : "_sync",
                      pinned ? "" : "_unpinned");
}

absl::StatusOr<std::unique_ptr<GrpcServers>> GrpcServers::Start(int client_core, int server_core) {
  std::unique_ptr<GrpcServers> servers(new GrpcServers(client_core));
  const char* temporary = getenv("TMPDIR");
  std::string directory =
      absl::StrCat(temporary == nullptr ? "/tmp" : temporary, "/invoker_bench.XXXXXX");
  if (mkdtemp(directory.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a directory as ", directory, ": ", strerror(errno)));
  }
  servers->directory_ = directory;
  for (const std::string& flavor : Flavors()) {
    for (const bool pinned : {true, false}) {
      Server server;
      server.flavor = flavor;
      server.pinned = pinned;
      server.socket = absl::StrCat(directory, "/", flavor, pinned ? "" : "_unpinned");
      ServerProcess::Options options;
      options.command = {ProgramPath("bench/peers/grpc_echo_server"),
                         absl::StrCat("--flavor=", flavor),
                         absl::StrCat("--socket=", server.socket)};
      options.core = pinned ? server_core : -1;
      absl::StatusOr<std::unique_ptr<ServerProcess>> process = ServerProcess::Start(options);
      if (!process.ok()) return process.status();
      server.process = *std::move(process);
      if (absl::Status status = server.process->Pause(); !status.ok()) return status;
      servers->servers_.push_back(std::move(server));
    }
  }
  return servers;
}

GrpcServers::~GrpcServers() {
  for (Server& server : servers_) {
    server.process.reset();
    // The server does so itself, unless it had to be killed.
    unlink(server.socket.c_str());
  }
  if (!directory_.empty()) rmdir(directory_.c_str());
}

std::vector<GrpcServers::Way> GrpcServers::Ways() const {
  std::vector<Way> ways;
  for (const Server& server : servers_) {
    for (const bool unix_socket : {false, true}) {
      for (const bool polled : {false, true}) {
        ways.push_back({server.flavor, unix_socket, polled, server.pinned});
      }
    }
  }
  return ways;
}

absl::StatusOr<std::unique_ptr<Contender>> GrpcServers::Connect(const Way& way) const {
  for (const Server& server : servers_) {
    if (server.flavor != way.server || server.pinned != way.pinned) continue;
    const std::string target = way.unix_socket
                                   ? absl::StrCat("unix:", server.socket)
                                   : absl::StrCat("127.0.0.1:", server.process->first_line());
    ServerProcess::Options options;
    options.command = {ProgramPath("bench/peers/grpc_echo_client"),
                       absl::StrCat("--target=", target)};
    if (way.polled) options.command.push_back("--poll");
    options.core = client_core_;
    absl::StatusOr<std::unique_ptr<ServerProcess>> client = ServerProcess::Start(options);
    if (!client.ok()) return client.status();
    return std::make_unique<GrpcContender>(way.Name(), *std::move(client), server.process.get());
  }
  return absl::NotFoundError(absl::StrCat("no server for ", way.Name()));
}

}  // namespace invoker::bench
