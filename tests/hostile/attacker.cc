#include "tests/hostile/attacker.h"

#include <algorithm>
#include <utility>

#include "tests/hostile/raw_session.h"

namespace invoker::hostile {
namespace {

constexpr uint64_t kSourceBytes = 1 << 20;
// What is refused for so long is given up: the target may have ended the connection.
constexpr int64_t kPatienceNs = 200'000'000;
// For a connection to be made on a loaded machine.
constexpr int64_t kLongPatienceNs = 60'000'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<Attacker>> Attacker::Open(const std::string& provider,
                                                         const std::string& target, Fates* fates) {
  auto reactor = OpenReactor(provider);
  if (!reactor.ok()) return reactor.status();
  std::unique_ptr<Attacker> attacker(new Attacker(*std::move(reactor), fates));
  attacker->reactor_->set_handler(attacker.get());
  auto buffer = transport::HostBuffer::Allocate(kSourceBytes);
  if (!buffer.ok()) return buffer.status();
  auto source = attacker->reactor_->Register(*std::move(buffer), transport::RegionUse::kSource);
  if (!source.ok()) return source.status();
  attacker->source_ = *std::move(source);
  auto room = transport::HostBuffer::Allocate(kMostRead);
  if (!room.ok()) return room.status();
  auto sink = attacker->reactor_->Register(*std::move(room), transport::RegionUse::kTransfer);
  if (!sink.ok()) return sink.status();
  attacker->sink_ = *std::move(sink);
  auto peer = attacker->reactor_->peers().Insert(target);
  if (!peer.ok()) return peer.status();
  attacker->peer_ = *peer;
  return attacker;
}

Attacker::~Attacker() {
  reactor_->RetireAllOf(this);
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
  reactor_->Retire(std::move(source_));
  reactor_->Retire(std::move(sink_));
}

// Room that nothing under way is read from, as far as that can be known.
std::byte* Attacker::NextPlace(absl::Span<const std::byte> bytes) {
  if (next_ + bytes.size() > source_.size()) {
    Settle();
    next_ = 0;
  }
  std::byte* place = source_.data() + next_;
  std::copy(bytes.begin(), bytes.end(), place);
  next_ += (bytes.size() + 63) / 64 * 64;
  return place;
}

bool Attacker::Post(const transport::Notifier* notifier, const bootstrap::WindowDescriptor& window,
                    uint64_t offset, absl::Span<const std::byte> bytes, uint32_t token) {
  const transport::RemoteWindow remote = {peer_->address, window.base, window.length, window.key};
  const std::byte* place = NextPlace(bytes);
  const int64_t give_up_ns = transport::MonotonicNs() + kPatienceNs;
  while (!reactor_->PostWrite(notifier, remote, offset, place, source_.descriptor(), bytes.size(),
                              token, this, 0)) {
    reactor_->Poll();
    if (transport::MonotonicNs() > give_up_ns) {
      ++fates_->not_sent;
      return false;
    }
  }
  reactor_->Poll();
  return true;
}

bool Attacker::Transfer(transport::TransferDirection direction,
                        const bootstrap::WindowDescriptor& window, uint64_t offset,
                        std::byte* local, void* descriptor, size_t bytes) {
  const transport::RemoteWindow remote = {peer_->address, window.base, window.length, window.key};
  const int64_t give_up_ns = transport::MonotonicNs() + kPatienceNs;
  const uint64_t tag = direction == transport::TransferDirection::kRead ? kReadTag : kWriteTag;
  while (!reactor_->PostTransfer(direction, remote, offset, local, descriptor, bytes, this, tag)) {
    reactor_->Poll();
    if (transport::MonotonicNs() > give_up_ns) {
      ++fates_->not_sent;
      return false;
    }
  }
  reactor_->Poll();
  return true;
}

void Attacker::Read(const bootstrap::WindowDescriptor& window, uint64_t offset, size_t bytes) {
  Transfer(transport::TransferDirection::kRead, window, offset, sink_.data(), sink_.descriptor(),
           bytes);
}

absl::Status Attacker::Reach(const bootstrap::WindowDescriptor& window, uint64_t offset,
                             absl::Span<const std::byte> bytes) {
  const uint64_t wanted = writes_done_ + 1;
  const uint64_t refused = fates_->refused;
  const int64_t give_up_ns = transport::MonotonicNs() + kLongPatienceNs;
  bool left = Transfer(transport::TransferDirection::kWrite, window, offset, NextPlace(bytes),
                       source_.descriptor(), bytes.size());
  while (left && writes_done_ < wanted && fates_->refused == refused) {
    reactor_->Poll();
    left = transport::MonotonicNs() < give_up_ns;
  }
  return writes_done_ == wanted ? absl::OkStatus() : absl::UnavailableError("no way to the target");
}

bool Attacker::Send(absl::Span<const std::byte> message) {
  const std::byte* place = NextPlace(message);
  fid_ep* endpoint = reactor_->endpoint().get();
  const int64_t give_up_ns = transport::MonotonicNs() + kPatienceNs;
  ssize_t code = -FI_EAGAIN;
  while (code == -FI_EAGAIN && transport::MonotonicNs() < give_up_ns) {
    // What is longer completes for an operation that the reactor does not know, which it ignores.
    code = message.size() <= reactor_->profile().inject_bytes
               ? fi_inject(endpoint, place, message.size(), peer_->address)
               : fi_send(endpoint, place, message.size(), source_.descriptor(), peer_->address,
                         &contexts_[next_context_ % contexts_.size()]);
    reactor_->Poll();
  }
  ++next_context_;
  if (code == -FI_EAGAIN) {
    ++fates_->not_sent;
  } else if (code != 0) {
    ++fates_->refused;
  }
  return code == 0;
}

bool Attacker::Ring(uint32_t token) {
  return Send({reinterpret_cast<const std::byte*>(&token), sizeof(token)});
}

void Attacker::Settle() {
  const int64_t give_up_ns = transport::MonotonicNs() + kPatienceNs;
  while (reactor_->operations().outstanding() > 0 && transport::MonotonicNs() < give_up_ns) {
    reactor_->Poll();
  }
  for (int i = 0; i < 100; ++i) reactor_->Poll();
}

}  // namespace invoker::hostile
