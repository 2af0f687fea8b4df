#include "src/transport/peer_table.h"

#include <utility>

namespace invoker::transport {

absl::StatusOr<const Peer*> PeerTable::Insert(absl::string_view raw_address) {
  if (auto found = peers_.find(raw_address); found != peers_.end()) {
    Peer& peer = *found->second;
    if (peer.references == 0) {
      --(peer.kept ? kept_ : quarantined_);
      peer.kept = false;
      ++peer.epoch;
    }
    ++peer.references;
    return &peer;
  }
  absl::StatusOr<fi_addr_t> address = av_->Insert(raw_address);
  if (!address.ok()) return address.status();
  auto peer = std::make_unique<Peer>();
  peer->address = *address;
  peer->epoch = 1;
  peer->references = 1;
  return peers_.emplace(std::string(raw_address), std::move(peer)).first->second.get();
}

void PeerTable::Release(const Peer* peer) {
  // The table owns every Peer it hands out; only callers see them as constant.
  Peer* owned = const_cast<Peer*>(peer);
  if (--owned->references == 0) {
    ++quarantined_;
    owned->rounds_left = quarantine_rounds_;
    if (quarantine_rounds_ == 0) RemoveIdle();
  }
}

void PeerTable::RemoveIdle() {
  if (quarantined_ + kept_ == 0) return;
  for (auto entry = peers_.begin(); entry != peers_.end();) {
    Peer& peer = *entry->second;
    const auto current = entry++;
    if (peer.references != 0) continue;
    if (peer.rounds_left > 0) {
      --peer.rounds_left;
      continue;
    }
    const PeerUse use = use_(peer.address);
    if (use != PeerUse::kNone) {
      // To ask is not cheap.
      peer.rounds_left = quarantine_rounds_;
      const bool kept = use == PeerUse::kWrittenOff;
      if (kept == peer.kept) continue;
      peer.kept = kept;
      --(kept ? quarantined_ : kept_);
      ++(kept ? kept_ : quarantined_);
      continue;
    }
    --(peer.kept ? kept_ : quarantined_);
    // A failed removal leaves an unused entry behind in the provider, and nothing of ours refers to
    // it any more.
    av_->Remove(peer.address).IgnoreError();
    peers_.erase(current);
  }
}

}  // namespace invoker::transport
