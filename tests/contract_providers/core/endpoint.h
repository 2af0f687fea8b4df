// An emulated endpoint: one inner endpoint, what it has under way as initiator, and what it has
// parked as target.
//
// Its functions are in one file per step: endpoint.cc (open, bind, enable, close), post.cc (a call
// becomes an operation), leave.cc (operations leave and complete), target.cc (what arrives),
// receive.cc (messages meet posted receives), api_*.cc (libfabric's tables). All want the domain's
// lock held, but for the API's own functions.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_ENDPOINT_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_ENDPOINT_H_

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/contract_providers/core/freedoms.h"
#include "tests/contract_providers/core/inner.h"
#include "tests/contract_providers/core/objects.h"
#include "tests/contract_providers/core/operation.h"

namespace contract {

class Endpoint {
 public:
  // First, so that the address of one is the address of the other.
  fid_ep handle;

  Endpoint(Domain* domain, const fi_info& info);

  // endpoint.cc
  int BindLocked(fid* object, uint64_t flags);
  int EnableLocked();
  // Lets what was posted leave, within bounds.
  void CloseLocked();
  // The address vector lets go of a peer.
  void ForgetLocked(const AddressVector* av, const std::string& identity);

  // One poll: everything that is late is one poll less late afterwards.
  void ProgressLocked();

  // post.cc. 0 or a negative fi_errno.
  ssize_t PostLocked(const Call& call);
  // receive.cc
  ssize_t PostReceiveLocked(const fi_msg& message, uint64_t flags);
  ssize_t CancelLocked(void* context);

  Domain* domain() const { return domain_; }
  const Contract& contract() const { return *domain_->contract; }
  uint64_t caps() const { return caps_; }
  bool enabled() const { return inner_ != nullptr; }
  const std::string& address() const { return address_; }
  uint64_t tx_flags() const { return tx_flags_; }
  size_t tx_room() const;
  const Freedoms& freedoms() const { return freedoms_; }
  Statistics& statistics() { return statistics_; }

 private:
  // The way to a peer as the application names it. A peer that is inserted anew is refused anew.
  struct Route {
    Peer* peer = nullptr;
    uint32_t storm = 0;
  };
  struct Posted {
    void* context = nullptr;
    Buffers buffers;
    uint64_t size = 0;
    void* first = nullptr;
    std::string from;            // the only sender that it takes; "" for any
    std::vector<uint64_t> keys;  // the regions' that it lies in
    bool tell = true;
  };
  // Something to do so many polls later.
  struct Deferred {
    uint32_t polls;
    std::function<void()> run;
  };
  // Only here for what the inner endpoint reports.
  class Events final : public InnerEvents {
   public:
    explicit Events(Endpoint* self) : self_(self) {}
    void OnPacket(const PacketHeader& header, const uint8_t* payload) override {
      self_->OnPacket(header, payload);
    }
    void OnSent(uint64_t operation, int error) override { self_->OnSent(operation, error); }

   private:
    Endpoint* self_;
  };

  // post.cc
  int CheckCall(const Call& call, uint64_t length) const;
  int CheckDescriptors(const Call& call) const;
  Route* FindRoute(fi_addr_t address);
  Peer* FindPeer(const std::string& identity);

  // leave.cc
  bool Leave(Operation* operation);  // whether all of it has left
  bool Fenced(const Operation& operation) const;
  void LeaveInOrder(std::deque<Operation*>* queue);
  void LeaveAll(bool is_poll);
  void OnSent(uint64_t id, int error);
  void OnAnswer(const PacketHeader& header);
  void OnReadResponse(const PacketHeader& header, const uint8_t* payload);
  void FinishIfDone(Operation* operation);
  void Tell(uint64_t id);
  void Defer(uint32_t polls, std::function<void()> run);

  // target.cc
  void OnPacket(const PacketHeader& header, const uint8_t* payload);
  void OnWrite(Peer* from, const PacketHeader& header, const uint8_t* payload);
  void OnRead(Peer* from, const PacketHeader& header);
  void OnAtomic(Peer* from, const PacketHeader& header, const uint8_t* payload);
  bool PlaceSome(Parked* write);  // whether nothing is left to place
  void RunAtomics(Peer* from, bool is_poll);
  void RunAtomic(Peer* from, const Parked& atomic);
  void Answer(Peer* to, const PacketHeader& request, int error);
  void SendResult(Peer* to, const PacketHeader& request, const std::vector<uint8_t>& result);
  void Queue(Peer* to, const PacketHeader& header, std::vector<uint8_t> payload);
  void FlushAnswers();
  void TellImmediate(const PacketHeader& header);

  // receive.cc
  void OnMessagePart(Peer* from, const PacketHeader& header, const uint8_t* payload);
  void Match(Message message);
  void Deliver(const Posted& posted, const Message& message);
  void Unhold(const Posted& posted);

  Domain* domain_;
  uint64_t caps_;
  uint64_t tx_flags_;
  uint64_t rx_flags_;
  size_t tx_size_;
  size_t rx_size_;
  uint64_t order_;
  AddressVector* av_ = nullptr;
  CompletionQueue* tx_cq_ = nullptr;
  CompletionQueue* rx_cq_ = nullptr;
  bool tx_selective_ = false;
  bool rx_selective_ = false;

  Freedoms freedoms_;
  Statistics statistics_;
  Events events_;
  std::unique_ptr<InnerEndpoint> inner_;
  std::string address_;

  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Operation>> operations_;
  // Posted, in no order that anybody is promised.
  std::list<Operation*> loose_;
  std::unordered_map<fi_addr_t, Route> routes_;
  std::unordered_map<std::string, std::unique_ptr<Peer>> peers_;
  std::list<Deferred> deferred_;

  struct Queued {
    Peer* to;
    PacketHeader header;
    std::vector<uint8_t> payload;
  };
  std::deque<Queued> answers_;
  std::list<std::unique_ptr<Parked>> parked_writes_;
  std::list<Posted> receives_;
  std::list<Message> unexpected_;
};

// api_*.cc
fi_ops_msg* MessageOps();
fi_ops_rma* RmaOps();
fi_ops_atomic* AtomicOps();
fi_ops_tagged* TaggedOps();

// atomics.cc. Bytes of one element, 0 for a datatype that is not known.
size_t AtomicSize(enum fi_datatype datatype);
// Applies `count` elements of `operand` to `target`, and tells what was there before. `comparand`
// is looked at by comparing operations only. One at a time in the whole process.
void ApplyAtomic(AtomicKind kind, enum fi_datatype datatype, enum fi_op op, uint64_t count,
                 const uint8_t* operand, const uint8_t* comparand, uint8_t* target,
                 uint8_t* previous);
// Whether the emulation knows the combination at all.
bool AtomicKnown(AtomicKind kind, enum fi_datatype datatype, enum fi_op op);

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_ENDPOINT_H_
