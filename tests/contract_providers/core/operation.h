// One operation of the initiator's, from its post until its completion has been told.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_OPERATION_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_OPERATION_H_

#include <rdma/fabric.h>
#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/contract_providers/core/contract.h"
#include "tests/contract_providers/core/freedoms.h"
#include "tests/contract_providers/core/wire.h"

namespace contract {

struct Peer;

// A scattered buffer of the caller's.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const iovec* iov, size_t count) : iov_(iov, iov + count) {}

  uint64_t size() const;
  // Copies bytes [offset, offset + length) of all of it; what lies beyond the end is left out.
  void CopyOut(uint64_t offset, uint64_t length, void* to) const;
  void CopyIn(uint64_t offset, uint64_t length, const void* from) const;

 private:
  std::vector<iovec> iov_;
};

// A call that posts, as the API tables hand it over.
struct Call {
  PacketKind kind = PacketKind::kSend;
  const iovec* iov = nullptr;
  void* const* descriptors = nullptr;
  size_t iov_count = 0;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t address = 0;
  uint64_t remote_length = 0;
  uint64_t key = 0;
  uint64_t data = 0;
  void* context = nullptr;
  uint64_t flags = 0;   // the operation's: FI_COMPLETION, FI_INJECT, FI_DELIVERY_COMPLETE, ...
  bool silent = false;  // an inject function: no completion, not even with FI_COMPLETION
  // Atomics.
  AtomicKind atomic_kind = AtomicKind::kWrite;
  enum fi_datatype datatype = FI_UINT8;
  enum fi_op atomic_op = FI_SUM;
  uint64_t atomic_count = 0;
  const void* comparand = nullptr;
  void* result = nullptr;
};

struct Operation {
  uint64_t id = 0;
  Call call;  // its pointers are not valid any more
  Peer* peer = nullptr;
  Buffers source;             // read as late as when a packet leaves
  std::vector<uint8_t> copy;  // instead of it, if the caller was promised that
  Buffers result;             // a read's or a fetching atomic's
  uint64_t result_bytes = 0;
  uint64_t result_received = 0;
  uint64_t total = 0;
  uint64_t left = 0;  // bytes that have left
  Fate fate;
  uint32_t polls_to_leave = 0;
  bool tell = true;
  bool all_left = false;
  bool needs_answer = true;
  bool answered = false;
  bool finished = false;
  uint32_t in_flight = 0;  // packets
  int error = 0;           // positive fi_errno
};

// A message on its way in.
struct Message {
  PacketHeader header = {};
  Peer* from = nullptr;
  std::vector<uint8_t> bytes;
  uint64_t received = 0;
};

// A write or an atomic that the target has, but has not (wholly) placed.
struct Parked {
  PacketHeader header = {};
  Peer* from = nullptr;
  std::vector<uint8_t> bytes;
  uint64_t received = 0;
  Placement placement;
  size_t next_piece = 0;
  uint32_t polls = 0;  // before the next piece
  bool answered = false;
};

// Another endpoint, as initiator and as target. Lives as long as the endpoint that knows it.
struct Peer {
  std::string identity;
  uint32_t nonce = 0;
  fi_addr_t inner = FI_ADDR_NOTAVAIL;
  bool met = false;        // a packet went to it or came from it
  bool forgotten = false;  // removed after that (Contract::peers_meet_once)
  // These leave in order; nothing else does.
  std::deque<Operation*> sends;
  std::deque<Operation*> atomics;
  // By the peer's operation number.
  std::map<uint64_t, Message> messages;
  std::map<uint64_t, std::unique_ptr<Parked>> writes;
  std::deque<std::unique_ptr<Parked>> parked_atomics;
};

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_OPERATION_H_
