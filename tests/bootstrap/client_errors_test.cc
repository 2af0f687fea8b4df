// What a user reads when the address is wrong or the server is not what it should be.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/bootstrap/raw_socket.h"

namespace invoker::bootstrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status ConnectTo(const std::string& target, absl::Duration timeout = kPatience) {
  return BootstrapClient::Connect(target, timeout).status();
}

// A gRPC server whose service is filled in by the test.
class OtherServer {
 public:
  explicit OtherServer(grpc::Service* service) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~OtherServer() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
  const std::string& address() const { return address_; }
  // One more client, which is connected by `fd`; takes it.
  void Serve(int fd) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    grpc::AddInsecureChannelFromFd(server_.get(), fd);
  }

 private:
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST(ClientErrorsTest, ADeadTargetIsNamedWithTheReason) {
  std::string address;
  {
    FakeHost host;
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options, &host);
    ASSERT_TRUE(server.ok()) << server.status();
    address = (*server)->listen_address();
  }
  const absl::Status status = ConnectTo(address);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no invoker_server answers at " + address),
                    HasSubstr("connection refused"), HasSubstr("check")));
}

TEST(ClientErrorsTest, ABadTargetIsQuotedWithAnExample) {
  for (const std::string target : {"", "localhost", "127.0.0.1:", "127.0.0.1:0", "1:2:3"}) {
    const absl::Status status = ConnectTo(target);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"" + target + "\""));
  }
}

TEST(ClientErrorsTest, AnUnknownHostIsNamed) {
  // The top-level domain is reserved for names that do not exist.
  const absl::Status status = ConnectTo("worker.invalid:1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker.invalid"));
}

TEST(ClientErrorsTest, APortThatTalksGarbageIsNotCalledAnInvokerServer) {
  RawListener listener("220 mail.example.org ESMTP, and this is certainly no HTTP/2\r\n");
  ASSERT_TRUE(listener.ok());
  const absl::Status status = ConnectTo(listener.address(), absl::Seconds(5));
  EXPECT_THAT(status.code(), ::testing::AnyOf(absl::StatusCode::kUnavailable,
                                              absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(listener.address()), HasSubstr("does not speak gRPC")));
}

TEST(ClientErrorsTest, APortThatSaysNothingEndsAtTheTimeoutAndSaysSo) {
  RawListener listener("");
  ASSERT_TRUE(listener.ok());
  const absl::Status status = ConnectTo(listener.address(), absl::Milliseconds(400));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr(listener.address()), HasSubstr("400ms"), HasSubstr("does not speak gRPC")));
}

// A worker that answers questions but never a heartbeat, or not even a lease.
class MuteService : public v1::Bootstrap::Service {
 public:
  explicit MuteService(bool grant) : grant_(grant) {}

  grpc::Status GetWorkerInfo(grpc::ServerContext*, const v1::GetWorkerInfoRequest*,
                             v1::GetWorkerInfoReply* reply) override {
    *reply = ToProto(SampleInfo());
    return grpc::Status::OK;
  }

  grpc::Status Lease(grpc::ServerContext*,
                     grpc::ServerReaderWriter<v1::LeaseEvent, v1::LeaseRequest>* stream) override {
    if (grant_) {
      v1::LeaseEvent event;
      event.mutable_granted()->set_lease(1);
      event.mutable_granted()->set_heartbeat_interval_us(10'000);
      event.mutable_granted()->set_expiry_us(200'000);
      stream->Write(event);
    }
    v1::LeaseRequest request;
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  }

 private:
  const bool grant_;
};

// Closes the first connection, and gives all others to a gRPC server.
TEST(ClientErrorsTest, AFirstConnectionThatFailsIsTriedOnceMore) {
  MuteService service(/*grant=*/false);
  OtherServer server(&service);
  std::atomic<int> connections{0};
  RawListener listener([&](int fd) {
    if (connections.fetch_add(1) == 0) {
      close(fd);
    } else {
      server.Serve(fd);
    }
  });
  ASSERT_TRUE(listener.ok());
  const absl::Status status = ConnectTo(listener.address());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GE(connections.load(), 2);
}

TEST(ClientErrorsTest, AnotherGrpcServiceIsNotCalledAnInvokerServer) {
  v1::Bootstrap::Service every_method_unimplemented;
  OtherServer server(&every_method_unimplemented);
  const absl::Status status = ConnectTo(server.address());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(server.address()), HasSubstr("is not an invoker_server")));
}

class FutureService : public v1::Bootstrap::Service {
 public:
  grpc::Status GetWorkerInfo(grpc::ServerContext*, const v1::GetWorkerInfoRequest*,
                             v1::GetWorkerInfoReply* reply) override {
    reply->set_protocol_version(9);
    return grpc::Status::OK;
  }
};

TEST(ClientErrorsTest, AnotherReleasesServerIsRefusedWithBothVersions) {
  FutureService service;
  OtherServer server(&service);
  const absl::Status status = ConnectTo(server.address());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("worker speaks protocol version 9"),
                                                   HasSubstr("the client protocol version 6")));
}

// Says of a lease on these terms why it is lost, and how often that is told.
std::vector<absl::Status> HowItIsLost(BootstrapClient* client, const LeaseTerms& terms) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<absl::Status> lost;
  LeaseEvents events;
  events.on_lost = [&](absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex);
    lost.push_back(std::move(status));
    changed.notify_all();
  };
  auto lease = Lease::Acquire(client, terms, events, kPatience);
  if (!lease.ok()) return {lease.status()};
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, absl::ToChronoSeconds(kPatience), [&] { return !lost.empty(); });
  }
  lease->reset();
  return lost;
}

TEST(ClientErrorsTest, ALeaseIsLostWhenTheServerStopsAnsweringHeartbeats) {
  MuteService service(/*grant=*/true);
  OtherServer server(&service);
  auto client = BootstrapClient::Connect(server.address(), kPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  const std::vector<absl::Status> lost = HowItIsLost(client->get(), {});
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(lost[0].message()),
              AllOf(HasSubstr(server.address()), HasSubstr("not answered heartbeats for 200ms")));
}

// So that those who wait have been told when that is over, whatever the worker would allow.
TEST(ClientErrorsTest, AClientWaitsForHeartbeatsForFourFifthsOfItsPeerTimeout) {
  MuteService service(/*grant=*/true);
  OtherServer server(&service);
  auto client = BootstrapClient::Connect(server.address(), kPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  LeaseTerms terms;
  terms.peer_timeout = absl::Milliseconds(100);
  const std::vector<absl::Status> lost = HowItIsLost(client->get(), terms);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_THAT(std::string(lost[0].message()), HasSubstr("not answered heartbeats for 80ms"));
}

TEST(ClientErrorsTest, ALeaseThatIsNeverGrantedEndsAtTheTimeout) {
  MuteService service(/*grant=*/false);
  OtherServer server(&service);
  auto client = BootstrapClient::Connect(server.address(), kPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status =
      Lease::Acquire(client->get(), {}, {}, absl::Milliseconds(300)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("grant a lease"));
}

// Reads `size` bytes. False if the other side closes first.
bool Receive(int fd, char* bytes, size_t size) {
  return size == 0 || recv(fd, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

// Speaks as much HTTP/2 as it needs to end each stream of gRPC with `trailers`, encoded by HPACK.
// Takes `fd`.
void EndStreamsWith(int fd, const std::string& trailers) {
  constexpr char kHeaders = 1, kSettings = 4, kEndStreamAndHeaders = 5;
  const auto frame = [&](char type, char flags, char stream, const std::string& payload) {
    std::string bytes = {0, 0, static_cast<char>(payload.size()), type, flags, 0, 0, 0, stream};
    bytes += payload;
    return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  };
  char preface[24], header[9];
  bool ok = Receive(fd, preface, sizeof(preface)) && frame(kSettings, 0, 0, "");
  while (ok && Receive(fd, header, sizeof(header))) {
    std::string payload(static_cast<uint8_t>(header[1]) * 256u + static_cast<uint8_t>(header[2]),
                        0);
    ok = Receive(fd, payload.data(), payload.size());
    if (ok && header[3] == kHeaders)
      ok = frame(kHeaders, kEndStreamAndHeaders, header[8], trailers);
  }
  close(fd);
}

// A server that is being stopped may do so, or one that wants to end its clients.
TEST(ClientErrorsTest, AStreamThatEndsWithoutAStatusIsAnErrorAndDoesNotEndTheProcess) {
  const std::string trailers =
      "\x88\x40\x0c"
      "content-type"
      "\x10"
      "application/grpc";
  RawListener listener([&](int fd) { EndStreamsWith(fd, trailers); });
  ASSERT_TRUE(listener.ok());
  const absl::Status status = ConnectTo(listener.address());
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(listener.address()), HasSubstr("No status received")));
}

TEST(ClientErrorsTest, AnHttpProxyInTheEnvironmentIsNotUsed) {
  FakeHost host;
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  auto server = Server::Start(options, &host);
  ASSERT_TRUE(server.ok()) << server.status();
  // Port 1 has no proxy.
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const absl::Status status = ConnectTo((*server)->listen_address());
  unsetenv("http_proxy");
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace invoker::bootstrap
