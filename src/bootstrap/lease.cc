#include "src/bootstrap/lease.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client_channel.h"
#include "src/bootstrap/failure.h"

namespace invoker::bootstrap {
namespace {

using Clock = std::chrono::steady_clock;

// gRPC waits by its own clocks; the monotonic one is the same clock as ours on Linux, but nothing
// promises it.
gpr_timespec ToGpr(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(std::max<int64_t>(left.count(), 0), GPR_TIMESPAN));
}

}  // namespace

// Everything but the destructor and id() runs on one thread at a time: first Acquire's caller, then
// the lease's.
class Lease::Impl {
 public:
  Impl(std::shared_ptr<ClientChannel> channel, LeaseEvents events)
      : channel_(std::move(channel)),
        stub_(v1::Bootstrap::NewStub(channel_->channel())),
        events_(std::move(events)) {}

  ~Impl() {
    released_.store(true);
    context_.TryCancel();
    if (thread_.joinable()) thread_.join();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  absl::Status Acquire(absl::Duration timeout) {
    const Clock::time_point deadline =
        Clock::now() + absl::ToChronoNanoseconds(
                           std::min(timeout - ReserveForExplanation(timeout), absl::Hours(24)));
    stream_ = stub_->PrepareAsyncLease(&context_, &queue_);
    stream_->StartCall(Tag(kStart));
    outstanding_ = 1;
    while (!granted_) {
      bool ok = false;
      const std::optional<Operation> done = Next(deadline, &ok);
      if (!done.has_value()) {
        context_.TryCancel();
        CloseStream();
        const grpc::Status late(grpc::StatusCode::DEADLINE_EXCEEDED,
                                "no lease was granted in time");
        return channel_->Explain("grant a lease", context_, late, timeout);
      }
      if (!ok) {
        const grpc::Status status = CloseStream();
        absl::Status reason = channel_->Explain("grant a lease", context_, status, timeout);
        return reason.ok() ? Bad("ended the lease's stream without a lease") : reason;
      }
      if (*done == kStart) {
        Read();
      } else if (absl::Status status = Grant(); !status.ok()) {
        context_.TryCancel();
        CloseStream();
        return status;
      }
    }
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  uint64_t id() const { return id_; }

 private:
  enum Operation : uintptr_t { kStart = 1, kRead, kWrite, kFinish };

  static void* Tag(Operation operation) { return reinterpret_cast<void*>(operation); }

  // The operation that has ended, or nothing at the deadline.
  std::optional<Operation> Next(Clock::time_point deadline, bool* ok) {
    void* tag = nullptr;
    if (queue_.AsyncNext(&tag, ok, ToGpr(deadline)) != grpc::CompletionQueue::GOT_EVENT) {
      return std::nullopt;
    }
    --outstanding_;
    return static_cast<Operation>(reinterpret_cast<uintptr_t>(tag));
  }

  void Read() {
    ++outstanding_;
    stream_->Read(&event_, Tag(kRead));
  }

  // Waits for what is under way and takes the stream's status. Only once the stream broke or was
  // cancelled: otherwise it would wait.
  grpc::Status CloseStream() {
    grpc::Status status;
    ++outstanding_;
    stream_->Finish(&status, Tag(kFinish));
    void* tag = nullptr;
    bool ok = false;
    while (outstanding_ > 0 && queue_.Next(&tag, &ok)) --outstanding_;
    stream_ = nullptr;
    return status;
  }

  absl::Status Bad(absl::string_view what) const {
    return absl::InternalError(absl::StrCat("invoker_server at ", channel_->name(), " ", what));
  }

  absl::Status Grant() {
    if (!event_.has_granted()) return Bad("did not begin the lease's stream with a lease");
    const auto& granted = event_.granted();
    constexpr uint64_t kLongestUs = 24ull * 3600 * 1'000'000;
    if (granted.lease() == 0 || granted.heartbeat_interval_us() == 0 ||
        granted.expiry_us() <= granted.heartbeat_interval_us() ||
        granted.expiry_us() > kLongestUs) {
      return Bad("granted a lease with times or an id that make no sense");
    }
    id_ = granted.lease();
    interval_ = std::chrono::microseconds(granted.heartbeat_interval_us());
    expiry_ = std::chrono::microseconds(granted.expiry_us());
    granted_ = true;
    Read();
    return absl::OkStatus();
  }

  void Run() {
    Clock::time_point heard = Clock::now();
    Clock::time_point next_heartbeat = heard;  // the first at once
    bool writing = false;
    while (true) {
      const Clock::time_point now = Clock::now();
      if (!writing && now >= next_heartbeat) {
        request_.mutable_heartbeat()->set_sequence(++sequence_);
        ++outstanding_;
        stream_->Write(request_, Tag(kWrite));
        writing = true;
        next_heartbeat = now + interval_;
      }
      const Clock::time_point silent_at = heard + expiry_;
      bool ok = false;
      const std::optional<Operation> done =
          Next(writing ? silent_at : std::min(silent_at, next_heartbeat), &ok);
      if (!done.has_value()) {
        if (Clock::now() < silent_at) continue;
        context_.TryCancel();
        CloseStream();
        Lost(absl::DeadlineExceededError(absl::StrCat(
            "invoker_server at ", channel_->name(), " has not answered heartbeats for ",
            absl::FormatDuration(absl::FromChrono(expiry_)),
            ": it is stopped or overloaded, or the network is down; connect again")));
        return;
      }
      if (*done == kWrite) {
        // A failed write is followed by a failed read, which tells why.
        writing = !ok;
        continue;
      }
      if (!ok) {
        EndOfStream();
        return;
      }
      heard = Clock::now();
      Handle();
      Read();
    }
  }

  void Handle() {
    switch (event_.event_case()) {
      case v1::LeaseEvent::kDraining:
        if (events_.on_draining && !released_.load()) {
          events_.on_draining(event_.draining().reason());
        }
        break;
      case v1::LeaseEvent::kSessionClosed:
        if (events_.on_session_closed && !released_.load()) {
          events_.on_session_closed(event_.session_closed().handle(),
                                    event_.session_closed().reason());
        }
        break;
      case v1::LeaseEvent::kEnded:
        // The stream's end follows at once and reports it.
        expired_ = event_.ended().reason();
        break;
      default:  // an acknowledgement, or something newer: either shows that the server lives
        break;
    }
  }

  void EndOfStream() {
    const grpc::Status status = CloseStream();
    if (released_.load()) return;
    const std::string server = absl::StrCat("invoker_server at ", channel_->name());
    if (expired_.has_value()) {
      Lost(absl::DeadlineExceededError(
          absl::StrCat(server, " declared the lease expired: ", *expired_,
                       "; this process was stopped or starved for that long; connect again")));
      return;
    }
    const bool answered = ClientChannel::Answered(context_);
    Lost(absl::UnavailableError(
        answered ? absl::StrCat(server, " ended the lease: ",
                                status.ok() ? "no reason given" : status.error_message())
                 : absl::StrCat("the connection to ", server, " broke: ", status.error_message(),
                                "; the worker has exited or crashed, or the network failed")));
  }

  void Lost(absl::Status status) {
    if (events_.on_lost && !released_.load()) events_.on_lost(std::move(status));
  }

  const std::shared_ptr<ClientChannel> channel_;
  const std::unique_ptr<v1::Bootstrap::Stub> stub_;
  const LeaseEvents events_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::LeaseRequest, v1::LeaseEvent>> stream_;
  v1::LeaseRequest request_;
  v1::LeaseEvent event_;
  int outstanding_ = 0;  // operations whose tags have not come back
  bool granted_ = false;
  uint64_t id_ = 0;
  Clock::duration interval_{};
  Clock::duration expiry_{};
  uint64_t sequence_ = 0;
  std::optional<std::string> expired_;
  std::atomic<bool> released_{false};
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Lease>> Lease::Acquire(BootstrapClient* client, LeaseEvents events,
                                                      absl::Duration timeout) {
  auto impl = std::make_unique<Impl>(client->channel_, std::move(events));
  if (absl::Status status = impl->Acquire(timeout); !status.ok()) return status;
  return std::unique_ptr<Lease>(new Lease(std::move(impl)));
}

Lease::Lease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Lease::~Lease() = default;

uint64_t Lease::id() const { return impl_->id(); }

}  // namespace invoker::bootstrap
