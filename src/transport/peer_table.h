// Owner of the address vector's entries. Driver thread only.
//
// Every user of a peer holds one reference; the first inserts the address. When the last reference
// goes, the peer is quarantined: its entry stays until no operation to it is outstanding, because a
// provider may still use it. Inserting a quarantined address again revives the entry under a new
// epoch, so that whoever compares epochs sees that the peer was gone in between. An entry whose
// operations were written off is kept for as long as the provider keeps them.

#ifndef INVOKER_SRC_TRANSPORT_PEER_TABLE_H_
#define INVOKER_SRC_TRANSPORT_PEER_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/transport/address_vector.h"
#include "src/transport/peer_use.h"

namespace invoker::transport {

struct Peer {
  fi_addr_t address = FI_ADDR_UNSPEC;
  uint32_t epoch = 0;  // counts the insertions of this entry
  uint32_t references = 0;
  uint32_t rounds_left = 0;  // in quarantine
  bool kept = false;         // out of quarantine, for what was written off
};

class PeerTable {
 public:
  // `av` must outlive the table. `use` says what is outstanding to a peer.
  // An entry also outlives that many calls of RemoveIdle: what the peer sent before it went may
  // still be in the provider's queues, and a provider may look the sender up when it comes to it.
  PeerTable(AddressVector* av, std::function<PeerUse(fi_addr_t)> use,
            uint32_t quarantine_rounds = 0)
      : av_(av), use_(std::move(use)), quarantine_rounds_(quarantine_rounds) {}

  // The returned pointer stays valid until the matching Release.
  absl::StatusOr<const Peer*> Insert(absl::string_view raw_address);

  void Release(const Peer* peer);

  // Removes the entries without references that have become idle. Cheap when there are none.
  void RemoveIdle();

  size_t live() const { return peers_.size() - quarantined_ - kept_; }
  size_t quarantined() const { return quarantined_; }
  // Without references, for what was written off. No matter how long they last.
  size_t kept() const { return kept_; }

 private:
  AddressVector* av_;
  std::function<PeerUse(fi_addr_t)> use_;
  absl::flat_hash_map<std::string, std::unique_ptr<Peer>> peers_;
  uint32_t quarantine_rounds_;
  size_t quarantined_ = 0;
  size_t kept_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_PEER_TABLE_H_
