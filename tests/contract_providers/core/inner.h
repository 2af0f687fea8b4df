// The inner provider: a plain FI_MSG endpoint that carries packets in order, and nothing else.
//
// Not thread-safe: the caller holds its domain's lock.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_INNER_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_INNER_H_

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/contract_providers/core/address.h"
#include "tests/contract_providers/core/config.h"
#include "tests/contract_providers/core/wire.h"

namespace contract {

struct FidCloser {
  template <typename Fid>
  void operator()(Fid* object) const {
    fi_close(&object->fid);
  }
};

struct InfoFreer {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};

// One inner fabric and domain per emulated domain.
struct InnerDomain {
  std::unique_ptr<fi_info, InfoFreer> info;
  std::unique_ptr<fid_fabric, FidCloser> fabric;
  std::unique_ptr<fid_domain, FidCloser> domain;
  bool is_ip = false;

  // 0 or a negative fi_errno.
  static int Open(const Config& config, std::unique_ptr<InnerDomain>* result);
};

// A packet that is received into, or sent from. `context` is first: the inner provider gets its
// address, and its completion leads back here.
struct Packet {
  fi_context2 context;
  bool sending = false;
  uint64_t operation = 0;  // whose part it is; 0: nobody waits for it
  alignas(16) uint8_t bytes[kPacketBytes];

  PacketHeader* header() { return reinterpret_cast<PacketHeader*>(bytes); }
  uint8_t* payload() { return bytes + sizeof(PacketHeader); }
};

class InnerEvents {
 public:
  virtual ~InnerEvents() = default;
  // The packet is the endpoint's again once this returns.
  virtual void OnPacket(const PacketHeader& header, const uint8_t* payload) = 0;
  // `error` is a positive fi_errno, 0 for success.
  virtual void OnSent(uint64_t operation, int error) = 0;
};

class InnerEndpoint {
 public:
  static int Open(const InnerDomain& domain, const Contract& contract,
                  std::unique_ptr<InnerEndpoint>* result);
  ~InnerEndpoint();

  const Place& place() const { return place_; }

  // fi_addr of the inner endpoint at `place`. Never removed: shm crashes on packets that are still
  // queued from a removed peer. FI_ADDR_NOTAVAIL, which Send knows, if that endpoint was of this
  // process and is closed.
  int AddPeer(const Contract& contract, const Place& place, fi_addr_t* address);

  // A free packet, nullptr if there are too many under way.
  Packet* Take();
  void GiveBack(Packet* packet) { free_.push_back(packet); }
  // 0, or a negative fi_errno, and the packet stays the caller's: -FI_EAGAIN to try again,
  // -FI_EHOSTUNREACH if the peer was an endpoint of this process and is closed.
  ssize_t Send(Packet* packet, fi_addr_t to);

  // Reports what has completed since; so many at most.
  void Poll(int budget, InnerEvents* events);

 private:
  InnerEndpoint() = default;
  int Start(const InnerDomain& domain, const Contract& contract);
  void Receive(Packet* packet);

  std::unique_ptr<fid_cq, FidCloser> cq_;
  std::unique_ptr<fid_av, FidCloser> av_;
  std::unique_ptr<fid_ep, FidCloser> endpoint_;
  Place place_;
  bool is_ip_ = false;
  std::vector<uint64_t> peer_keys_;  // by fi_addr
  std::vector<std::unique_ptr<Packet>> packets_;
  std::vector<Packet*> free_;
  // Receives that the inner provider refused to take.
  std::vector<Packet*> unposted_;
};

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_INNER_H_
