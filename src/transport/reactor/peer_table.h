// Owner of the address vector's entries. Driver thread only.
//
// Every user of a peer holds one reference; the first inserts the address. When the last reference
// goes, the peer is quarantined: its entry stays until no operation to it is outstanding, because a
// provider may still use it. Inserting a quarantined address again revives the entry under a new
// epoch, so that a user who compares epochs sees that the peer was gone in between. An entry whose
// operations were written off is kept for as long as the provider keeps them.
//
// Made for a million peers: an entry costs about 45 bytes, whatever the length of its address,
// which is asked from the provider and not kept a second time. No call looks at more peers than it
// is about.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_PEER_TABLE_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_PEER_TABLE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/transport/base/peer_use.h"
#include "src/transport/fabric/address_vector.h"

namespace invoker::transport {

struct Peer {
  fi_addr_t address = FI_ADDR_UNSPEC;
  uint32_t epoch = 0;  // counts the insertions of this entry
  uint32_t references = 0;
  uint32_t hash = 0;           // the raw address's
  bool kept = false;           // out of quarantine, for what was written off
  bool remembers_raw = false;  // the table has the raw address, because the provider has not
};

class PeerTable {
 public:
  // `av` must outlive the table. `uses` says to which peers operations are outstanding.
  // An entry also outlives that many calls of RemoveIdle: what the peer sent before it went may
  // still be in the provider's queues, and a provider may look the sender up when it comes to it.
  PeerTable(AddressVector* av, std::function<PeerUses()> uses, uint32_t quarantine_rounds = 0)
      : av_(av),
        uses_(std::move(uses)),
        quarantine_rounds_(quarantine_rounds),
        by_raw_(0, HashOf(), HasRaw{this}) {}
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  // The returned pointer stays valid until the matching Release.
  absl::StatusOr<const Peer*> Insert(absl::string_view raw_address);

  void Release(const Peer* peer);

  // Removes entries without references that have become idle. Cheap when there are none, and looks
  // at so few at a time that a driver can call it between two turns; what is left comes next time.
  void RemoveIdle();

  size_t live() const { return by_raw_.size() - quarantined_ - kept_; }
  size_t quarantined() const { return quarantined_; }
  // Without references, for what was written off. No matter how long they last.
  size_t kept() const { return kept_; }

 private:
  struct HashOf {
    using is_transparent = void;
    size_t operator()(const Peer* peer) const { return peer->hash; }
    size_t operator()(absl::string_view raw) const;
  };
  struct HasRaw {
    using is_transparent = void;
    const PeerTable* table;
    bool operator()(const Peer* a, const Peer* b) const { return a == b; }
    bool operator()(const Peer* peer, absl::string_view raw) const;
  };

  // A peer without references, of the epoch in which it lost the last.
  struct Idle {
    Peer* peer;
    uint32_t epoch;
    uint32_t due;  // the round in which to look at it
  };

  bool ProviderHas(fi_addr_t address, absl::string_view raw) const;
  Peer* TakeEntry();
  void LookAgain(Peer* peer);
  void SetKept(Peer* peer, bool kept);
  void Remove(Peer* peer);

  AddressVector* av_;
  std::function<PeerUses()> uses_;
  uint32_t quarantine_rounds_;
  std::deque<Peer> entries_;  // at stable addresses
  std::vector<Peer*> free_;
  absl::flat_hash_set<Peer*, HashOf, HasRaw> by_raw_;
  // The raw addresses that the provider does not give back as they were.
  absl::flat_hash_map<const Peer*, std::string> remembered_;
  std::deque<Idle> idle_;  // by `due`; those that were revived since are passed over
  uint32_t round_ = 0;     // wraps
  size_t quarantined_ = 0;
  size_t kept_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_PEER_TABLE_H_
