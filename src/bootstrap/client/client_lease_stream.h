// One lease's stream, on the client: a gRPC completion queue with at most one read and one write
// under way.
//
// Used by one thread at a time, but for Cancel and Wake.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_LEASE_STREAM_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_LEASE_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client_channel.h"

namespace invoker::bootstrap {

class ClientLeaseStream {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Operation : uintptr_t { kStart = 1, kRead, kWrite, kFinish, kWake };
  struct Done {
    Operation operation;
    bool ok;
  };

  explicit ClientLeaseStream(const ClientChannel& channel);
  ~ClientLeaseStream();
  ClientLeaseStream(const ClientLeaseStream&) = delete;
  ClientLeaseStream& operator=(const ClientLeaseStream&) = delete;

  void Start();
  // event() is what was read once kRead has ended with ok.
  void Read();
  const v1::LeaseEvent& event() const { return event_; }
  // Not while writing().
  void Write(const v1::LeaseRequest& request);
  bool writing() const { return writing_; }

  // What has ended, or nothing at the deadline. After a write that failed the stream stays
  // writing(): the read fails as well, and tells why.
  std::optional<Done> Next(Clock::time_point deadline);

  // Any thread, and again and again: Next returns kWake at least once after the last time.
  void Wake();
  // Any thread. Everything that is under way fails.
  void Cancel() { context_.TryCancel(); }

  // Waits for what is under way and takes the stream's status. Only once the stream broke or was
  // cancelled: otherwise it would wait.
  grpc::Status Close();

  const grpc::ClientContext& context() const { return context_; }

 private:
  const std::unique_ptr<v1::Bootstrap::Stub> stub_;
  grpc::CompletionQueue queue_;
  std::mutex alarm_mutex_;
  bool alarm_set_ = false;  // and its kWake has not come yet
  grpc::Alarm alarm_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::LeaseRequest, v1::LeaseEvent>> stream_;
  v1::LeaseRequest request_;
  v1::LeaseEvent event_;
  int outstanding_ = 0;  // operations of the stream's whose tags have not come back
  bool writing_ = false;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_CLIENT_LEASE_STREAM_H_
