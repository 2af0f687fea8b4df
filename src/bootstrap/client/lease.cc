#include "src/bootstrap/client/lease.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/client/client_channel.h"
#include "src/bootstrap/client/client_lease_stream.h"
#include "src/bootstrap/client/failure.h"
#include "src/bootstrap/client/session_token_pool.h"
#include "src/bootstrap/conversion/convert_lease.h"

namespace invoker::bootstrap {
namespace {

using Clock = ClientLeaseStream::Clock;
using Operation = ClientLeaseStream::Operation;

// Who waits for ever looks at the clock once a year.
constexpr absl::Duration kLongestWait = absl::Hours(365 * 24);
// What the worker answers at a time.
constexpr uint32_t kTokensAtOnce = 64;
constexpr uint64_t kLongestTokenUs = 24ull * 3600 * 1'000'000;

// The share of LeaseTerms::peer_timeout for silence.
constexpr double kShareForSilence = 0.8;

}  // namespace

// Everything but the destructor, Release and the simple reads runs on one thread at a time: first
// Acquire's caller, then the lease's.
class Lease::Impl {
 public:
  Impl(std::shared_ptr<ClientChannel> channel, LeaseEvents events)
      : channel_(std::move(channel)),
        events_(std::move(events)),
        stream_(*channel_),
        tokens_(std::make_shared<SessionTokenPool>([this] { stream_.Wake(); })) {}

  ~Impl() {
    released_.store(true);
    // A holder of the tokens still asks the stream for no more.
    tokens_->Close();
    if (id_ != 0) channel_->SetSessionTokens(id_, nullptr);
    stream_.Cancel();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Acquire(const LeaseTerms& terms, absl::Duration timeout) {
    peer_timeout_ = terms.peer_timeout;
    const absl::Duration allowed = timeout + std::max(terms.wait, absl::ZeroDuration());
    const Clock::time_point deadline =
        Clock::now() +
        absl::ToChronoNanoseconds(std::min(allowed - ReserveForExplanation(timeout), kLongestWait));
    stream_.Start();
    while (id_ == 0) {
      const std::optional<ClientLeaseStream::Done> done = stream_.Next(deadline);
      if (!done.has_value()) {
        stream_.Cancel();
        stream_.Close();
        const grpc::Status late(grpc::StatusCode::DEADLINE_EXCEEDED,
                                "no lease was granted in time");
        return channel_->Explain("grant a lease", stream_.context(), late, allowed);
      }
      if (!done->ok) {
        const grpc::Status status = stream_.Close();
        absl::Status reason =
            channel_->Explain("grant a lease", stream_.context(), status, timeout);
        return reason.ok() ? Bad("ended the lease's stream without a lease") : reason;
      }
      if (done->operation == Operation::kStart) {
        v1::LeaseRequest request;
        *request.mutable_terms() = ToProto(terms);
        stream_.Write(request);
        stream_.Read();
      } else if (done->operation == Operation::kRead) {
        if (absl::Status status = HandleAnswer(); !status.ok()) {
          stream_.Cancel();
          stream_.Close();
          return status;
        }
        stream_.Read();
      }
    }
    absl::Status status = transport::StartThread(&thread_, [this] { Run(); });
    if (!status.ok()) {
      stream_.Cancel();
      stream_.Close();
    }
    return status;
  }

  absl::StatusOr<LeaseEnd> Release(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    if (!result_.has_value() && !released_.exchange(true)) stream_.Wake();
    const auto over = [this]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return result_.has_value(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&over), timeout)) {
      return absl::DeadlineExceededError(
          absl::StrCat("the lease is given back, but invoker_server at ", channel_->name(),
                       " has not sent the bill within ", absl::FormatDuration(timeout)));
    }
    return *result_;
  }

  uint64_t id() const { return id_; }
  const LeaseTerms& terms() const { return terms_; }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::InternalError(absl::StrCat(server(), " ", what));
  }

  std::string server() const { return absl::StrCat("invoker_server at ", channel_->name()); }

  absl::Status HandleAnswer() {
    const v1::LeaseEvent& event = stream_.event();
    if (event.has_queued()) {
      if (events_.on_queued) events_.on_queued(event.queued().ahead());
      return absl::OkStatus();
    }
    if (event.has_granted()) return Grant(event.granted());
    return Bad("did not begin the lease's stream with a lease");
  }

  absl::Status Grant(const v1::LeaseEvent::Granted& granted) {
    constexpr uint64_t kLongestUs = 24ull * 3600 * 1'000'000;
    if (granted.lease() == 0 || granted.heartbeat_interval_us() == 0 ||
        granted.expiry_us() <= granted.heartbeat_interval_us() ||
        granted.expiry_us() > kLongestUs) {
      return Bad("granted a lease with times or an id that make no sense");
    }
    absl::StatusOr<LeaseTerms> terms = FromProto(granted.terms());
    if (!terms.ok()) {
      return Bad(absl::StrCat("granted a lease on bad terms: ", terms.status().message()));
    }
    terms_ = *std::move(terms);
    interval_ = std::chrono::microseconds(granted.heartbeat_interval_us());
    silence_limit_ = std::chrono::microseconds(granted.expiry_us());
    if (peer_timeout_ > absl::ZeroDuration() && peer_timeout_ < absl::InfiniteDuration()) {
      // A worker of another mind about heartbeats is asked as often as this side needs.
      interval_ = std::min<Clock::duration>(
          interval_, absl::ToChronoNanoseconds(peer_timeout_ / kHeartbeatsPerTimeout));
      // The rest of the time is for those who wait to be told.
      silence_limit_ = absl::ToChronoNanoseconds(peer_timeout_ * kShareForSilence);
    }
    id_ = granted.lease();
    TakeTokens(granted.session_tokens());
    channel_->SetSessionTokens(id_, tokens_);
    return absl::OkStatus();
  }

  void TakeTokens(const v1::LeaseEvent::SessionTokens& message) {
    tokens_->Add({message.tokens().begin(), message.tokens().end()},
                 absl::Microseconds(static_cast<int64_t>(
                     std::min<uint64_t>(message.expiry_us(), kLongestTokenUs))));
  }

  void Run() {
    absl::Status lost = Hold();
    tokens_->Close();
    if (!released_.load()) {
      if (ended_.has_value() && events_.on_ended) events_.on_ended(*ended_);
      if (events_.on_lost) events_.on_lost(lost);
    }
    absl::MutexLock lock(&mutex_);
    if (ended_.has_value()) {
      result_ = *std::move(ended_);
    } else {
      result_ = std::move(lost);
    }
  }

  // Until the stream has ended. Returns why. Silence is counted only in time that this thread has
  // witnessed: while this process was stopped, or starved, the worker may have answered.
  absl::Status Hold() {
    Clock::time_point heard = Clock::now();
    Clock::time_point next_heartbeat = heard;  // the first at once
    Clock::time_point next_look = heard + interval_ / kLooksPerHeartbeat;
    bool release = false;
    uint32_t tokens_wanted = 0;
    while (true) {
      const Clock::time_point now = Clock::now();
      if (!stream_.writing() && release) {
        release = false;
        v1::LeaseRequest request;
        request.mutable_release();
        stream_.Write(request);
      } else if (!stream_.writing() && std::exchange(tell_closing_seen_, false)) {
        v1::LeaseRequest request;
        request.mutable_closing_seen();
        stream_.Write(request);
      } else if (!stream_.writing() && tokens_wanted != 0) {
        v1::LeaseRequest request;
        request.mutable_more_session_tokens()->set_count(std::min(tokens_wanted, kTokensAtOnce));
        tokens_wanted -= request.more_session_tokens().count();
        stream_.Write(request);
      } else if (!stream_.writing() && now >= next_heartbeat) {
        v1::LeaseRequest request;
        request.mutable_heartbeat()->set_sequence(++sequence_);
        stream_.Write(request);
        next_heartbeat = now + interval_;
        // At the first there is nothing to look at yet.
        if (sequence_ > 1 && events_.on_heartbeat && !released_.load()) events_.on_heartbeat();
      } else if (!stream_.writing() && now >= next_look) {
        next_look = now + interval_ / kLooksPerHeartbeat;
        if (events_.on_look && !released_.load()) events_.on_look();
      }
      Clock::time_point due_back = std::min(heard + silence_limit_, now + interval_);
      if (!stream_.writing()) due_back = std::min({due_back, next_heartbeat, next_look});
      // How late this turn was has been counted in the one before.
      due_back = std::max(due_back, now);
      const std::optional<ClientLeaseStream::Done> done = stream_.Next(due_back);
      if (const Clock::time_point back = Clock::now(); back > due_back) heard += back - due_back;
      if (!done.has_value()) {
        if (Clock::now() < heard + silence_limit_) continue;
        if (events_.shows_life && events_.shows_life()) {
          heard = Clock::now();
          continue;
        }
        stream_.Cancel();
        stream_.Close();
        // Nor will it answer what else it has been asked.
        channel_->CancelCalls();
        return absl::DeadlineExceededError(
            absl::StrCat(server(), " has not answered heartbeats for ",
                         absl::FormatDuration(absl::FromChrono(silence_limit_)),
                         ": it is stopped or overloaded, or the network is down; connect again"));
      }
      if (done->operation == Operation::kWake) {
        tokens_wanted += tokens_->TakeWanted();
        if (released_.load() && !std::exchange(release_asked_, true)) release = true;
      }
      if (done->operation != Operation::kRead) continue;
      if (!done->ok) return EndOfStream();
      heard = Clock::now();
      Handle();
      stream_.Read();
    }
  }

  void Handle() {
    const v1::LeaseEvent& event = stream_.event();
    switch (event.event_case()) {
      case v1::LeaseEvent::kDraining:
        if (events_.on_draining && !released_.load()) {
          events_.on_draining(event.draining().reason());
        }
        break;
      case v1::LeaseEvent::kClosing:
        if (events_.on_closing && !released_.load()) events_.on_closing();
        tell_closing_seen_ = true;
        break;
      case v1::LeaseEvent::kSessionClosed:
        if (events_.on_session_closed && !released_.load()) {
          events_.on_session_closed(event.session_closed().handle(),
                                    event.session_closed().reason());
        }
        break;
      case v1::LeaseEvent::kEnded:
        // The stream's end follows at once and is what is reported.
        ended_ = FromProto(event.ended());
        break;
      case v1::LeaseEvent::kSessionTokens:
        TakeTokens(event.session_tokens());
        break;
      default:  // an acknowledgement, or something newer: either shows that the server lives
        break;
    }
  }

  absl::Status EndOfStream() {
    const grpc::Status status = stream_.Close();
    if (ended_.has_value()) return Explain(*ended_);
    if (ClientChannel::Answered(stream_.context())) {
      return absl::UnavailableError(absl::StrCat(
          server(),
          " ended the lease: ", status.ok() ? "no reason given" : status.error_message()));
    }
    return absl::UnavailableError(
        absl::StrCat("the connection to ", server(), " broke: ", status.error_message(),
                     "; the worker has exited or crashed, or the network failed"));
  }

  absl::Status Explain(const LeaseEnd& end) const {
    const std::string said = absl::StrCat(server(), " ended the lease: ", end.reason);
    switch (end.cause) {
      case LeaseEndCause::kExpired:
        return absl::DeadlineExceededError(
            absl::StrCat(server(), " declared the lease expired: ", end.reason,
                         "; this process was stopped or starved for that long; connect again"));
      case LeaseEndCause::kTtl:
        return absl::DeadlineExceededError(absl::StrCat(said, "; take a new one"));
      case LeaseEndCause::kCrashed:
      case LeaseEndCause::kExited:
      case LeaseEndCause::kMemoryLimit:
      case LeaseEndCause::kCallLimit:
        return absl::AbortedError(said);
      case LeaseEndCause::kReleased:
      case LeaseEndCause::kServer:
        break;
    }
    return absl::UnavailableError(said);
  }

  const std::shared_ptr<ClientChannel> channel_;
  const LeaseEvents events_;
  ClientLeaseStream stream_;
  const std::shared_ptr<SessionTokenPool> tokens_;
  bool release_asked_ = false;      // the thread's
  bool tell_closing_seen_ = false;  // the thread's
  uint64_t id_ = 0;                 // 0: not granted yet
  LeaseTerms terms_;
  Clock::duration interval_{};
  absl::Duration peer_timeout_;      // LeaseTerms
  Clock::duration silence_limit_{};  // then the worker is given up
  uint64_t sequence_ = 0;
  std::optional<LeaseEnd> ended_;
  std::atomic<bool> released_{false};
  absl::Mutex mutex_;
  // Once the stream is over.
  std::optional<absl::StatusOr<LeaseEnd>> result_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Lease>> Lease::Acquire(BootstrapClient* client,
                                                      const LeaseTerms& terms, LeaseEvents events,
                                                      absl::Duration timeout) {
  auto impl = std::make_unique<Impl>(client->channel_, std::move(events));
  if (absl::Status status = impl->Acquire(terms, timeout); !status.ok()) return status;
  return std::unique_ptr<Lease>(new Lease(std::move(impl)));
}

Lease::Lease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Lease::~Lease() = default;

uint64_t Lease::id() const { return impl_->id(); }

const LeaseTerms& Lease::terms() const { return impl_->terms(); }

absl::StatusOr<LeaseEnd> Lease::Release(absl::Duration timeout) { return impl_->Release(timeout); }

}  // namespace invoker::bootstrap
