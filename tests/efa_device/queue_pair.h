// A queue pair: the requester that sends work requests as packets, and the responder that executes
// the packets of others.
//
// It knows neither sockets nor threads. Callers hold the card's lock.

#ifndef INVOKER_TESTS_EFA_DEVICE_QUEUE_PAIR_H_
#define INVOKER_TESTS_EFA_DEVICE_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/efa_device/address_handles.h"
#include "tests/efa_device/attributes.h"
#include "tests/efa_device/completion_queue.h"
#include "tests/efa_device/faults.h"
#include "tests/efa_device/frame.h"
#include "tests/efa_device/gid.h"
#include "tests/efa_device/memory_table.h"
#include "tests/efa_device/status.h"

namespace efa_device {

struct Peer {
  Gid gid = {};
  uint32_t qpn = 0;
  bool operator<(const Peer& other) const {
    return gid != other.gid ? gid < other.gid : qpn < other.qpn;
  }
  bool operator==(const Peer& other) const { return gid == other.gid && qpn == other.qpn; }
};

struct WorkRequest {
  enum class Operation { kSend, kRead, kWrite };

  uint64_t id = 0;
  Operation operation = Operation::kSend;
  Peer peer;
  uint32_t qkey = 0;
  uint32_t rkey = 0;
  uint64_t remote_address = 0;
  bool has_immediate = false;
  uint32_t immediate = 0;
  bool is_inline = false;
  std::string inline_data;
  std::vector<ibv_sge> buffers;  // unless inline

  uint64_t length() const;
};

struct ReceiveRequest {
  uint64_t id = 0;
  std::vector<ibv_sge> buffers;
};

class QueuePair;

// The services that a card provides to its queue pairs.
class Link {
 public:
  virtual ~Link() = default;

  // Sends a frame. kOk if it is under way; if the peer is lost later, the card calls PeerLost.
  virtual Status Transmit(QueuePair* from, const Peer& to, const Frame& frame) = 0;
  // Calls Retransmit(number) of the queue pair later, if that still exists.
  virtual void RetransmitAfter(std::chrono::microseconds delay, QueuePair* from,
                               uint64_t number) = 0;
};

class QueuePair {
 public:
  struct Options {
    Gid gid = {};
    uint32_t qpn = 0;
    const void* domain = nullptr;  // the protection domain
    const Attributes* attributes = nullptr;
    MemoryTable* memory = nullptr;
    AddressHandles* handles = nullptr;
    CompletionQueue* send_queue = nullptr;
    CompletionQueue* receive_queue = nullptr;
    uint32_t max_sends = 0;
    uint32_t max_receives = 0;
    uint32_t max_send_sge = 0;
    uint32_t max_receive_sge = 0;
    bool unreliable = false;   // UD instead of SRD
    bool unsolicited = false;  // writes with immediate consume no receive
  };

  QueuePair(const Options& options, const Faults::Stream& faults, Link* link);

  uint32_t qpn() const { return options_.qpn; }
  const Options& options() const { return options_; }

  // ibv_modify_qp: 0 or an errno.
  int Modify(const ibv_qp_attr& attributes, int mask);
  ibv_qp_state state() const { return state_; }

  // 0; ENOMEM if the queue is full; EINVAL if a request breaks a limit or the state forbids it. All
  // requests are posted, or none.
  int PostSends(std::vector<WorkRequest> requests);
  int PostReceive(ReceiveRequest request);

  // The responder. True if `answer` is to go back.
  bool HandleRequest(const Frame& request, Frame* answer);

  // The requester.
  void HandleAnswer(const Frame& answer);
  void Retransmit(uint64_t number);
  // Fails what the peer has not answered.
  void PeerLost(const Peer& peer);

 private:
  struct Request {
    WorkRequest work;
    uint64_t length = 0;
    uint64_t issued = 0;      // bytes of a read or write that are in packets
    bool all_issued = false;  // nothing is left to send
    size_t unanswered = 0;
    Status status = Status::kOk;
  };
  struct Packet {
    std::shared_ptr<Request> request;
    Frame frame;          // without payload, if it can be gathered again
    uint64_t offset = 0;  // where a read's or write's bytes are in the request
    uint32_t retries = 0;
  };

  // Requester.
  bool Valid(const WorkRequest& request) const;
  void Start(WorkRequest request);
  void StartSend(const std::shared_ptr<Request>& request);
  void StartRdma(const std::shared_ptr<Request>& request);
  void IssueRdma();
  Frame NewFrame(const Request& request) const;
  void Issue(const std::shared_ptr<Request>& request, Frame frame, uint64_t offset);
  void Resolve(uint64_t number, Status status);
  void Finish(const Request& request);
  void Fail(Request* request, Status status);
  bool Gather(const WorkRequest& work, uint64_t offset, size_t length, std::string* bytes) const;

  // Responder.
  Status Receive(const Frame& request);
  Status Read(const Frame& request, std::string* data);
  Status Write(const Frame& request);
  Completion ReceiveCompletion(const Frame& request) const;
  // Copies bytes to the buffers of a receive.
  Status Scatter(const ReceiveRequest& receive, const std::string& bytes) const;

  void EnterError();

  const Options options_;
  Faults::Stream faults_;
  Link* const link_;
  ibv_qp_state state_ = IBV_QPS_RESET;
  uint32_t qkey_ = 0;
  uint8_t rnr_retry_;

  // Work requests whose completions the user has not taken.
  std::shared_ptr<std::atomic<size_t>> send_slots_;
  std::shared_ptr<std::atomic<size_t>> receive_slots_;

  uint64_t last_number_ = 0;
  std::map<uint64_t, Packet> packets_;
  std::deque<std::shared_ptr<Request>> rdma_;  // not yet wholly issued
  size_t rdma_packets_ = 0;                    // among packets_
  std::deque<ReceiveRequest> receives_;
};

}  // namespace efa_device

#endif  // INVOKER_TESTS_EFA_DEVICE_QUEUE_PAIR_H_
