#include "src/bootstrap/client/client_lease_stream.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <utility>

namespace invoker::bootstrap {
namespace {

using Operation = ClientLeaseStream::Operation;

void* Tag(Operation operation) { return reinterpret_cast<void*>(operation); }

Operation FromTag(void* tag) { return static_cast<Operation>(reinterpret_cast<uintptr_t>(tag)); }

// gRPC waits by its own clocks; the monotonic one is the same clock as ours on Linux, but nothing
// promises it.
gpr_timespec ToGpr(ClientLeaseStream::Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
      deadline - ClientLeaseStream::Clock::now());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(std::max<int64_t>(left.count(), 0), GPR_TIMESPAN));
}

}  // namespace

ClientLeaseStream::ClientLeaseStream(const ClientChannel& channel)
    : stub_(v1::Bootstrap::NewStub(channel.channel())) {
  channel.Authorize(&context_);
}

ClientLeaseStream::~ClientLeaseStream() {
  alarm_.Cancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void ClientLeaseStream::Start() {
  stream_ = stub_->PrepareAsyncLease(&context_, &queue_);
  ++outstanding_;
  stream_->StartCall(Tag(Operation::kStart));
}

void ClientLeaseStream::Read() {
  ++outstanding_;
  stream_->Read(&event_, Tag(Operation::kRead));
}

void ClientLeaseStream::Write(const v1::LeaseRequest& request) {
  request_ = request;
  writing_ = true;
  ++outstanding_;
  stream_->Write(request_, Tag(Operation::kWrite));
}

std::optional<ClientLeaseStream::Done> ClientLeaseStream::Next(Clock::time_point deadline) {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, ToGpr(deadline)) != grpc::CompletionQueue::GOT_EVENT) {
    return std::nullopt;
  }
  const Operation operation = FromTag(tag);
  if (operation == Operation::kWake) {
    std::lock_guard<std::mutex> lock(alarm_mutex_);
    alarm_set_ = false;
  } else {
    --outstanding_;
  }
  if (operation == Operation::kWrite && ok) writing_ = false;
  return Done{operation, ok};
}

void ClientLeaseStream::Wake() {
  std::lock_guard<std::mutex> lock(alarm_mutex_);
  if (std::exchange(alarm_set_, true)) return;
  alarm_.Set(&queue_, gpr_now(GPR_CLOCK_MONOTONIC), Tag(Operation::kWake));
}

grpc::Status ClientLeaseStream::Close() {
  grpc::Status status;
  ++outstanding_;
  stream_->Finish(&status, Tag(Operation::kFinish));
  void* tag = nullptr;
  bool ok = false;
  while (outstanding_ > 0 && queue_.Next(&tag, &ok)) {
    if (FromTag(tag) != Operation::kWake) --outstanding_;
  }
  stream_ = nullptr;
  return status;
}

}  // namespace invoker::bootstrap
