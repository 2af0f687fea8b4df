// Owner of the address vector's entries. Driver thread only.
//
// Every user of a peer holds one reference; the first inserts the address. When the last reference
// goes, the peer is quarantined: its entry stays until no operation to it is outstanding, because a
// provider may still use it. Inserting a quarantined address again revives the entry under a new
// epoch, so that whoever compares epochs sees that the peer was gone in between.

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

namespace invoker::transport {

struct Peer {
  fi_addr_t address = FI_ADDR_UNSPEC;
  uint32_t epoch = 0;  // counts the insertions of this entry
  uint32_t references = 0;
  uint32_t rounds_left = 0;  // in quarantine
};

class PeerTable {
 public:
  // `av` must outlive the table. `busy` says whether an operation to the peer is outstanding.
  // An entry also outlives that many calls of RemoveIdle: what the peer sent before it went may
  // still be in the provider's queues, and a provider may look the sender up when it comes to it.
  PeerTable(AddressVector* av, std::function<bool(fi_addr_t)> busy, uint32_t quarantine_rounds = 0)
      : av_(av), busy_(std::move(busy)), quarantine_rounds_(quarantine_rounds) {}

  // The returned pointer stays valid until the matching Release.
  absl::StatusOr<const Peer*> Insert(absl::string_view raw_address);

  void Release(const Peer* peer);

  // Removes the quarantined entries that have become idle. Cheap when there are none.
  void RemoveIdle();

  size_t live() const { return peers_.size() - quarantined_; }
  size_t quarantined() const { return quarantined_; }

 private:
  AddressVector* av_;
  std::function<bool(fi_addr_t)> busy_;
  absl::flat_hash_map<std::string, std::unique_ptr<Peer>> peers_;
  uint32_t quarantine_rounds_;
  size_t quarantined_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_PEER_TABLE_H_
