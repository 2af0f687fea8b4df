#include "src/transport/self_test/checking_endpoint.h"

#include <utility>

namespace invoker::transport {
namespace {

// Small: it sends one message at a time, and nobody sends to it.
constexpr ReactorOptions kOptions = {16, 64};

// Between two tries of a check that fails.
constexpr int64_t kRetryNs = 100'000'000;

// Before it is closed, a connection hears what the peer's provider says to it: credits, mostly.
constexpr int64_t kSettleNs = 5'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<CheckingEndpoint>> CheckingEndpoint::Open(FabricChoice choice) {
  absl::StatusOr<std::unique_ptr<Reactor>> reactor = Reactor::Open(std::move(choice), kOptions);
  if (!reactor.ok()) return reactor.status();
  return std::unique_ptr<CheckingEndpoint>(new CheckingEndpoint(*std::move(reactor)));
}

CheckingEndpoint::CheckingEndpoint(std::unique_ptr<Reactor> reactor)
    : reactor_(std::move(reactor)) {
  reactor_->set_handler(this);
}

CheckingEndpoint::~CheckingEndpoint() {
  const int64_t stop_ns = MonotonicNs() + kSettleNs;
  while (reactor_->profile().close_needs_quiet && MonotonicNs() < stop_ns) {
    Poll(absl::Milliseconds(1));
  }
  reactor_->RetireAllOf(this);
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
  // Nobody writes to it: there is no memory to write to.
  Reactor::Close(std::move(reactor_), /*quiet=*/true);
}

absl::Status CheckingEndpoint::Send(const std::string& address, uint64_t nonce) {
  absl::StatusOr<const Peer*> peer = reactor_->peers().Insert(address);
  if (!peer.ok()) return peer.status();
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
  peer_ = *peer;
  nonce_ = nonce;
  failure_ = absl::OkStatus();
  to_post_ = true;
  next_post_ns_ = 0;
  return absl::OkStatus();
}

void CheckingEndpoint::Post() {
  const int64_t now_ns = MonotonicNs();
  if (!to_post_ || now_ns < next_post_ns_) return;
  next_post_ns_ = now_ns + kRetryNs;
  to_post_ = false;
  // Where it fails at once, OnOperationFailed has said so before this returns.
  if (!reactor_->PostCheck(peer_->address, nonce_, this)) to_post_ = true;
}

void CheckingEndpoint::Poll(absl::Duration limit) {
  Post();
  if (reactor_->Poll() == 0) reactor_->Wait(limit);
}

void CheckingEndpoint::OnOperationFailed(const Operation& operation, const absl::Status& status) {
  if (operation.peer != peer_->address) return;
  failure_ = status;
  to_post_ = true;
}

}  // namespace invoker::transport
