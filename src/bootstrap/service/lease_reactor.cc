#include "src/bootstrap/service/lease_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/conversion/convert_lease.h"
#include "src/bootstrap/service/caller.h"
#include "src/bootstrap/service/service_support.h"
#include "src/security/tenant.h"

namespace invoker::bootstrap {
namespace {

// A session takes one, and another one if the first fabric or its notification fails.
constexpr uint32_t kSpareTokens = 1;

}  // namespace

LeaseReactor* LeaseReactor::Start(grpc::CallbackServerContext* context, const LeaseTimes& times,
                                  LeaseTable* table, SessionTokens* tokens,
                                  security::AccessControl* access) {
  auto reactor = std::shared_ptr<LeaseReactor>(new LeaseReactor(context, times, table, tokens));
  LeaseReactor* raw = reactor.get();
  reactor->self_ = reactor;
  raw->Begin(std::move(reactor), access);
  return raw;
}

void LeaseReactor::Begin(std::shared_ptr<LeaseStream> self, security::AccessControl* access) {
  Mark(context_);
  absl::StatusOr<security::Caller> caller = CallerOf(*context_, access);
  absl::Status status = caller.status();
  if (status.ok()) {
    caller_ = *std::move(caller);
    const absl::StatusOr<uint64_t> id = LeaseTable::DrawId();
    status = id.status();
    if (status.ok()) lease_ = *id;
  }
  if (status.ok()) {
    LeaseHolder holder;
    holder.tenant = caller_.name;
    holder.machine = PeerMachine(*context_);
    if (caller_.tenant != nullptr) {
      holder.max_leases = caller_.tenant->max_leases;
      holder.max_ttl = caller_.tenant->max_ttl;
    }
    status = table_->Add(lease_, std::move(self), std::move(holder));
  }
  if (status.ok()) {
    Read();
  } else {
    End(status);
  }
}

void LeaseReactor::Read() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (end_.has_value()) return;
    request_.Clear();
  }
  StartRead(&request_);
}

void LeaseReactor::SendQueued(uint32_t ahead) {
  v1::LeaseEvent event;
  event.mutable_queued()->set_ahead(ahead);
  Send(std::move(event));
}

void LeaseReactor::SendGranted(const LeaseTerms& terms) {
  v1::LeaseEvent event;
  event.mutable_granted()->set_lease(lease_);
  absl::Duration interval = times_.heartbeat_interval;
  if (peer_timeout_ > absl::ZeroDuration()) {
    interval = std::min(interval, peer_timeout_ / kHeartbeatsPerTimeout);
  }
  event.mutable_granted()->set_heartbeat_interval_us(
      std::max<int64_t>(absl::ToInt64Microseconds(interval), 1));
  event.mutable_granted()->set_expiry_us(absl::ToInt64Microseconds(times_.expiry));
  *event.mutable_granted()->mutable_terms() = ToProto(terms);
  FillTokens(std::max(terms.executors, 1u) + kSpareTokens,
             event.mutable_granted()->mutable_session_tokens());
  Send(std::move(event));
}

void LeaseReactor::FillTokens(uint32_t count, v1::LeaseEvent::SessionTokens* message) {
  message->set_expiry_us(static_cast<uint64_t>(absl::ToInt64Microseconds(tokens_->expiry())));
  absl::StatusOr<std::vector<std::string>> tokens = tokens_->Grant(lease_, count);
  // Without randomness there are none, and the client's request to open a session says so.
  if (!tokens.ok()) return;
  for (std::string& token : *tokens) message->add_tokens(std::move(token));
}

absl::StatusOr<LeaseTerms> LeaseReactor::TermsOf(const v1::LeaseTerms& message) const {
  absl::StatusOr<LeaseTerms> terms = FromProto(message);
  if (!terms.ok() || caller_.tenant == nullptr) return terms;
  if (!terms->tenant.empty() && terms->tenant != caller_.name) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the lease is asked for in the name of tenant \"", terms->tenant, "\", but who asks is \"",
        caller_.name, "\" by this server's policy; leave the tenant out, or show its token"));
  }
  if (terms->ttl > caller_.tenant->max_ttl) {
    return absl::PermissionDeniedError(
        absl::StrCat("the lease asks for a ttl of ", absl::FormatDuration(terms->ttl),
                     "; this server's policy allows tenant \"", caller_.name, "\" ",
                     absl::FormatDuration(caller_.tenant->max_ttl), " at most"));
  }
  terms->tenant = caller_.name;
  terms->allowed = caller_.tenant;
  return terms;
}

void LeaseReactor::SendDraining(absl::string_view reason) {
  v1::LeaseEvent event;
  event.mutable_draining()->set_reason(std::string(reason));
  Send(std::move(event));
}

void LeaseReactor::SendClosing() {
  v1::LeaseEvent event;
  event.mutable_closing();
  Send(std::move(event));
}

void LeaseReactor::SendSessionClosed(uint64_t handle, absl::string_view reason) {
  v1::LeaseEvent event;
  event.mutable_session_closed()->set_handle(handle);
  event.mutable_session_closed()->set_reason(std::string(reason));
  Send(std::move(event));
}

void LeaseReactor::SendEnded(const LeaseEnd& end) {
  v1::LeaseEvent event;
  *event.mutable_ended() = ToProto(end);
  Send(std::move(event));
}

void LeaseReactor::End(const absl::Status& status) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!end_.has_value()) end_ = ToGrpc(status);
  Advance(std::move(lock));
}

void LeaseReactor::Cancel() {
  std::lock_guard<std::mutex> lock(context_mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void LeaseReactor::OnReadDone(bool ok) {
  if (!ok) {
    // The table ends the stream when the host has closed the lease.
    table_->End(lease_);
    return;
  }
  v1::LeaseRequest request;
  {
    // With the mutex, so that each read sees what the one before has left, whichever of gRPC's
    // threads they are on.
    std::lock_guard<std::mutex> lock(mutex_);
    request.Swap(&request_);
  }
  HandleRequest(request);
  Read();
}

void LeaseReactor::HandleRequest(const v1::LeaseRequest& request) {
  if (request.has_terms() == asked_) {
    table_->Refuse(lease_,
                   absl::InvalidArgumentError(
                       asked_ ? "the lease's stream has terms that are not the first message"
                              : "the lease's stream does not begin with terms"));
    return;
  }
  if (request.has_terms()) {
    asked_ = true;
    const absl::StatusOr<LeaseTerms> terms = TermsOf(request.terms());
    if (terms.ok()) {
      peer_timeout_ = terms->peer_timeout;
      table_->Ask(lease_, *terms);
    } else {
      table_->Refuse(lease_, terms.status());
    }
    return;
  }
  table_->Renew(lease_);
  if (request.has_release()) {
    table_->Release(lease_);
  } else if (request.has_closing_seen()) {
    table_->NoteClosingSeen(lease_);
  } else if (request.has_heartbeat()) {
    std::unique_lock<std::mutex> lock(mutex_);
    acknowledge_ = request.heartbeat().sequence();
    Advance(std::move(lock));
  } else if (request.has_more_session_tokens()) {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint32_t more =
        std::min(request.more_session_tokens().count(), SessionTokens::kMostAtOnce);
    tokens_wanted_ = std::min<uint32_t>(tokens_wanted_ + more, SessionTokens::kMostOfLease);
    Advance(std::move(lock));
  }
}

void LeaseReactor::OnWriteDone(bool ok) {
  std::unique_lock<std::mutex> lock(mutex_);
  writing_ = false;
  if (!ok) {
    // The client is gone; the read fails as well and ends the lease.
    broken_ = true;
    events_.clear();
    acknowledge_.reset();
    tokens_wanted_ = 0;
  }
  Advance(std::move(lock));
}

void LeaseReactor::OnDone() {
  {
    std::lock_guard<std::mutex> lock(context_mutex_);
    context_ = nullptr;
  }
  // The table's end waits for the next step, and the tokens' comes after that.
  tokens_->Forget(lease_);
  table_->StreamDone(lease_);
  // Every reaction has left its critical section: the thread that frees this sees all that they
  // wrote.
  { std::lock_guard<std::mutex> lock(mutex_); }
  // The last owner, unless the table is about to call: freed at the end of the scope.
  const std::shared_ptr<LeaseReactor> self = std::move(self_);
}

void LeaseReactor::Send(v1::LeaseEvent event) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (end_.has_value() || broken_) return;
  events_.push_back(std::move(event));
  Advance(std::move(lock));
}

void LeaseReactor::Advance(std::unique_lock<std::mutex> lock) {
  if (writing_ || finished_) return;
  if (!events_.empty()) {
    outgoing_ = std::move(events_.front());
    events_.pop_front();
  } else if (end_.has_value()) {
    finished_ = true;
    const grpc::Status status = *end_;
    lock.unlock();
    Finish(status);
    return;
  } else if (tokens_wanted_ != 0 && !broken_) {
    // Only their number is kept: a client that asks and does not read costs no memory either.
    outgoing_.Clear();
    const uint32_t count = std::min(tokens_wanted_, SessionTokens::kMostAtOnce);
    tokens_wanted_ -= count;
    FillTokens(count, outgoing_.mutable_session_tokens());
  } else if (acknowledge_.has_value() && !broken_) {
    // Only the newest is kept: a client that sends faster than it reads costs no memory.
    outgoing_.Clear();
    outgoing_.mutable_heartbeat_ack()->set_sequence(*acknowledge_);
    acknowledge_.reset();
  } else {
    return;
  }
  writing_ = true;
  lock.unlock();
  StartWrite(&outgoing_);
}

}  // namespace invoker::bootstrap
