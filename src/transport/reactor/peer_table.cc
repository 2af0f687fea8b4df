#include "src/transport/reactor/peer_table.h"

#include <cassert>

#include "absl/hash/hash.h"

namespace invoker::transport {
namespace {

// Removed or looked at in one call of RemoveIdle: some tens of microseconds.
constexpr int kMostPerRound = 256;

// No fabric's addresses are nearly as long, but for those that are strings.
constexpr size_t kUsualRawBytes = 256;

}  // namespace

size_t PeerTable::HashOf::operator()(absl::string_view raw) const {
  return static_cast<uint32_t>(absl::HashOf(raw));
}

bool PeerTable::HasRaw::operator()(const Peer* peer, absl::string_view raw) const {
  if (peer->hash != HashOf()(raw)) return false;
  if (!peer->remembers_raw) return table->ProviderHas(peer->address, raw);
  return table->remembered_.at(peer) == raw;
}

bool PeerTable::ProviderHas(fi_addr_t address, absl::string_view raw) const {
  char buffer[kUsualRawBytes];
  const size_t size = av_->Lookup(address, absl::MakeSpan(buffer));
  return size <= sizeof(buffer) && absl::string_view(buffer, size) == raw;
}

absl::StatusOr<const Peer*> PeerTable::Insert(absl::string_view raw_address) {
  if (auto found = by_raw_.find(raw_address); found != by_raw_.end()) {
    Peer& peer = **found;
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
  Peer* peer = TakeEntry();
  peer->address = *address;
  peer->epoch = 1;
  peer->references = 1;
  peer->hash = static_cast<uint32_t>(HashOf()(raw_address));
  peer->remembers_raw = !ProviderHas(*address, raw_address);
  if (peer->remembers_raw) remembered_[peer] = std::string(raw_address);
  by_raw_.insert(peer);
  return peer;
}

Peer* PeerTable::TakeEntry() {
  if (free_.empty()) return &entries_.emplace_back();
  Peer* peer = free_.back();
  free_.pop_back();
  *peer = Peer();
  return peer;
}

void PeerTable::Release(const Peer* peer) {
  // The table owns every Peer it hands out; only callers see them as constant.
  Peer* owned = const_cast<Peer*>(peer);
  assert(owned->references > 0);
  if (--owned->references == 0) {
    ++quarantined_;
    LookAgain(owned);
    if (quarantine_rounds_ == 0) RemoveIdle();
  }
}

void PeerTable::LookAgain(Peer* peer) {
  idle_.push_back({peer, peer->epoch, round_ + quarantine_rounds_ + 1});
}

void PeerTable::SetKept(Peer* peer, bool kept) {
  if (kept == peer->kept) return;
  peer->kept = kept;
  --(kept ? quarantined_ : kept_);
  ++(kept ? kept_ : quarantined_);
}

void PeerTable::RemoveIdle() {
  if (idle_.empty()) return;
  ++round_;
  const auto due = [this] {
    return !idle_.empty() && static_cast<int32_t>(idle_.front().due - round_) <= 0;
  };
  if (!due()) return;
  const PeerUses uses = uses_();
  for (int i = 0; i < kMostPerRound && due(); ++i) {
    const Idle idle = idle_.front();
    idle_.pop_front();
    Peer* peer = idle.peer;
    // An entry is looked at last in its latest epoch, so it has not been removed meanwhile.
    if (peer->references != 0 || peer->epoch != idle.epoch) continue;
    if (const auto use = uses.find(peer->address); use != uses.end()) {
      SetKept(peer, use->second == PeerUse::kQuarantined);
      LookAgain(peer);
    } else {
      Remove(peer);
    }
  }
  if (!by_raw_.empty()) return;
  // What many peers took is given back with the last of them.
  by_raw_.clear();
  std::vector<Peer*>().swap(free_);
  std::deque<Peer>().swap(entries_);
  std::deque<Idle>().swap(idle_);
}

void PeerTable::Remove(Peer* peer) {
  --(peer->kept ? kept_ : quarantined_);
  by_raw_.erase(by_raw_.find(peer));
  if (peer->remembers_raw) remembered_.erase(peer);
  // A failed removal leaves an unused entry behind in the provider, and nothing of ours refers to
  // it any more.
  av_->Remove(peer->address).IgnoreError();
  free_.push_back(peer);
}

}  // namespace invoker::transport
