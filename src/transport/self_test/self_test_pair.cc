#include "src/transport/self_test/self_test_pair.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker::transport {
namespace {

// Small: the test wants few operations, and the queues cost memory.
constexpr ReactorOptions kOptions = {64, 512};

// Polls of nothing that are worth it before others get the processor.
constexpr int kPollsBeforeYield = 200;

// More than what is on its way within a machine takes.
constexpr int64_t kSettleNs = 5'000'000;

// Between two looks at whether a message's bytes are there without its token.
constexpr int64_t kLookForBytesNs = 10'000'000;

}  // namespace

std::byte SelfTestByte(uint32_t token, size_t position) {
  return static_cast<std::byte>(((token * 2654435761u + position * 40503u) >> 7) | 1);
}

void FillWithPattern(std::byte* memory, size_t length, uint32_t token) {
  for (size_t i = 0; i < length; ++i) memory[i] = SelfTestByte(token, i);
}

bool HasPattern(const std::byte* memory, size_t length, uint32_t token) {
  for (size_t i = 0; i < length; ++i) {
    if (memory[i] != SelfTestByte(token, i)) return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<SelfTestSide>> SelfTestSide::Open(const FabricRequest& request) {
  absl::StatusOr<FabricChoice> choice = Discover(request);
  if (!choice.ok()) return choice.status();
  absl::StatusOr<std::unique_ptr<Reactor>> reactor = Reactor::Open(*std::move(choice), kOptions);
  if (!reactor.ok()) return reactor.status();
  std::unique_ptr<SelfTestSide> side(new SelfTestSide);
  side->reactor_ = *std::move(reactor);
  side->reactor_->set_handler(side.get());
  for (const RegionUse use : {RegionUse::kRemoteTarget, RegionUse::kSource}) {
    absl::StatusOr<HostBuffer> buffer =
        use == RegionUse::kSource ? HostBuffer::Allocate(SelfTestPair::kWindowBytes)
                                  : side->reactor_->AllocateTarget(SelfTestPair::kWindowBytes);
    if (!buffer.ok()) return buffer.status();
    absl::StatusOr<MemoryRegion> region = side->reactor_->Register(*std::move(buffer), use);
    if (!region.ok()) return region.status();
    (use == RegionUse::kSource ? side->source_ : side->window_) = *std::move(region);
  }
  return side;
}

SelfTestSide::~SelfTestSide() {
  reactor_->RetireAllOf(this);
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
  reactor_->Retire(std::move(window_));
  reactor_->Retire(std::move(source_));
  Reactor::Close(std::move(reactor_), quiet);
}

absl::Status SelfTestSide::Meet(const SelfTestSide& other) {
  absl::StatusOr<const Peer*> peer = reactor_->peers().Insert(other.reactor_->address());
  if (!peer.ok()) return peer.status();
  peer_ = *peer;
  remote_.peer = peer_->address;
  remote_.base = other.window_.remote_base();
  remote_.length = other.window_.size();
  remote_.key = other.window_.key();
  return absl::OkStatus();
}

bool SelfTestSide::Post(const Notifier* notifier, uint64_t offset, uint64_t length,
                        uint32_t token) {
  const bool posted = reactor_->PostWrite(notifier, remote_, offset, source_.data() + offset,
                                          source_.descriptor(), length, token, this, token);
  if (posted) ++sent;
  return posted;
}

void SelfTestSide::OnToken(uint64_t token) {
  ++received;
  if (on_token) on_token(static_cast<uint32_t>(token));
}

void SelfTestSide::OnOperationFailed(const Operation&, const absl::Status& status) {
  if (failure_.ok()) failure_ = status;
}

absl::StatusOr<std::unique_ptr<SelfTestPair>> SelfTestPair::Open(const FabricRequest& request) {
  std::unique_ptr<SelfTestPair> pair(new SelfTestPair);
  for (std::unique_ptr<SelfTestSide>& side : pair->sides_) {
    absl::StatusOr<std::unique_ptr<SelfTestSide>> opened = SelfTestSide::Open(request);
    if (!opened.ok()) return opened.status();
    side = *std::move(opened);
  }
  for (int i = 0; i < 2; ++i) {
    if (absl::Status met = pair->side(i).Meet(pair->side(1 - i)); !met.ok()) return met;
  }
  return pair;
}

SelfTestPair::~SelfTestPair() {
  if (sides_[0] == nullptr || sides_[1] == nullptr) return;
  const bool all_came =
      sides_[0]->sent == sides_[1]->received && sides_[1]->sent == sides_[0]->received;
  for (const std::unique_ptr<SelfTestSide>& side : sides_) {
    side->quiet = all_came && side->idle() && side->failure().ok();
  }
  // Endpoints that must be quiet to be closed must also have seen what their provider says to its
  // peer: credits, and at last that the peer has gone.
  const bool settle = profile().close_needs_quiet;
  for (std::unique_ptr<SelfTestSide>& side : sides_) {
    const int64_t stop_ns = MonotonicNs() + kSettleNs;
    while (settle && MonotonicNs() < stop_ns) {
      for (const std::unique_ptr<SelfTestSide>& each : sides_) {
        if (each != nullptr) each->reactor().Poll();
      }
    }
    side = nullptr;
  }
}

absl::Status SelfTestPair::Failure() const {
  for (const std::unique_ptr<SelfTestSide>& side : sides_) {
    if (!side->failure().ok()) return side->failure();
    if (!side->reactor().health().ok()) return side->reactor().health();
  }
  return absl::OkStatus();
}

bool SelfTestPair::PollUntil(const std::function<bool()>& done, int64_t deadline_ns) {
  for (int idle = 0; !done(); ++idle) {
    for (const std::unique_ptr<SelfTestSide>& side : sides_) {
      if (side->reactor().Poll() > 0) idle = 0;
    }
    // Some providers have threads that need a turn on a busy machine.
    if (idle >= kPollsBeforeYield) sched_yield();
    if (MonotonicNs() > deadline_ns || !Failure().ok()) return done();
  }
  return true;
}

absl::Status SelfTestPair::Cross(int from, const Notifier* notifier, uint64_t offset,
                                 uint64_t length, const Patience& patience) {
  SelfTestSide& sender = side(from);
  SelfTestSide& target = side(1 - from);
  const uint32_t expected = NextToken();
  FillWithPattern(sender.source().data() + offset, length, expected);
  std::byte* const place = target.window().data() + offset;
  memset(place, 0, length);
  bool came = false;
  bool whole = false;
  target.on_token = [&](uint32_t token) {
    if (token != expected) return;
    came = true;
    whole = HasPattern(place, length, expected);
  };
  bool going = sender.Post(notifier, offset, length, expected);
  int64_t bytes_seen_ns = 0;
  while (going && !came) {
    const int64_t now_ns = MonotonicNs();
    if (bytes_seen_ns == 0 && length > 0 && HasPattern(place, length, expected)) {
      bytes_seen_ns = now_ns;
    }
    const int64_t stop_ns = bytes_seen_ns == 0 ? patience.deadline_ns
                                               : std::min(patience.deadline_ns,
                                                          bytes_seen_ns + patience.after_bytes_ns);
    const int64_t slice_ns = std::min(stop_ns, now_ns + kLookForBytesNs);
    PollUntil([&came] { return came; }, slice_ns);
    going = MonotonicNs() < stop_ns && Failure().ok();
  }
  const bool arrived = came;
  target.on_token = nullptr;
  if (arrived && whole) return absl::OkStatus();
  if (arrived) {
    return absl::DataLossError(
        absl::StrCat("the token of ", length, " bytes arrived before all of them had"));
  }
  if (absl::Status failure = Failure(); !failure.ok()) return failure;
  // The bytes alone show that nothing is half-way.
  if (length > 0 && HasPattern(place, length, expected)) ++target.received;
  return absl::DeadlineExceededError(
      absl::StrCat("the token of ", length, " bytes did not arrive"));
}

bool SelfTestPair::Drain(int64_t deadline_ns) {
  return PollUntil([this] { return sides_[0]->idle() && sides_[1]->idle(); }, deadline_ns);
}

}  // namespace invoker::transport
