// The sending half of a queue pair.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/efa_device/queue_pair.h"

namespace efa_device {
namespace {

// Packets of reads and writes that a queue pair has under way.
constexpr size_t kRdmaWindow = 16;

// rnr_retry of this value means for ever.
constexpr uint8_t kRetryForEver = 7;
constexpr std::chrono::microseconds kFirstRetry(100);
constexpr uint32_t kMaxDoublings = 6;

ibv_wc_opcode OpcodeOf(WorkRequest::Operation operation) {
  // The card reports a read as a send; every rdma-core passes that on.
  return operation == WorkRequest::Operation::kWrite ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
}

}  // namespace

int QueuePair::PostSends(std::vector<WorkRequest> requests) {
  if (state_ != IBV_QPS_RTS) return EINVAL;
  for (const WorkRequest& request : requests) {
    if (!Valid(request)) return EINVAL;
  }
  if (*send_slots_ + requests.size() > options_.max_sends) return ENOMEM;
  if (faults_.Strikes(Fault::kSendFull)) return ENOMEM;
  for (WorkRequest& request : requests) Start(std::move(request));
  return 0;
}

bool QueuePair::Valid(const WorkRequest& request) const {
  const Attributes& attributes = *options_.attributes;
  if (request.inline_data.size() > attributes.max_inline) return false;
  switch (request.operation) {
    case WorkRequest::Operation::kSend:
      return request.buffers.size() <= options_.max_send_sge;
    case WorkRequest::Operation::kRead:
      if (!attributes.has(kCapRdmaRead)) return false;
      break;
    case WorkRequest::Operation::kWrite:
      if (!attributes.has(kCapRdmaWrite)) return false;
      break;
  }
  return !options_.unreliable && !request.is_inline &&
         request.buffers.size() <= attributes.max_rdma_sge;
}

void QueuePair::Start(WorkRequest request) {
  ++*send_slots_;
  const bool rdma = request.operation != WorkRequest::Operation::kSend;
  auto open = std::make_shared<Request>();
  open->work = std::move(request);
  open->length = open->work.length();
  if (faults_.Strikes(Fault::kBadAddress)) {
    open->status = Status::kUnresponsiveRemote;
  } else if (faults_.Strikes(Fault::kDeadPeer)) {
    open->status = Status::kBadDestinationQueuePair;
  } else if (open->length >
             (rdma ? options_.attributes->max_rdma_size : options_.attributes->mtu)) {
    open->status = Status::kBadLocalLength;
  }
  if (open->status != Status::kOk) {
    Finish(*open);
  } else if (rdma) {
    StartRdma(open);
  } else {
    StartSend(open);
  }
}

void QueuePair::StartSend(const std::shared_ptr<Request>& request) {
  Frame frame = NewFrame(*request);
  frame.kind = FrameKind::kSend;
  frame.unreliable = options_.unreliable;
  frame.has_immediate = request->work.has_immediate;
  frame.immediate = request->work.immediate;
  if (!Gather(request->work, 0, request->length, &frame.payload)) {
    Fail(request.get(), Status::kInvalidLocalKey);
    return;
  }
  request->all_issued = true;
  if (options_.unreliable) {
    link_->Transmit(this, request->work.peer, frame);
    Finish(*request);
    return;
  }
  Issue(request, std::move(frame), 0);
}

void QueuePair::StartRdma(const std::shared_ptr<Request>& request) {
  const bool read = request->work.operation == WorkRequest::Operation::kRead;
  for (const ibv_sge& buffer : request->work.buffers) {
    if (!options_.memory->Grants(options_.domain, buffer.lkey, buffer.addr, buffer.length,
                                 read ? IBV_ACCESS_LOCAL_WRITE : 0)) {
      Fail(request.get(), Status::kInvalidLocalKey);
      return;
    }
  }
  rdma_.push_back(request);
  IssueRdma();
}

void QueuePair::IssueRdma() {
  while (!rdma_.empty() && rdma_packets_ < kRdmaWindow) {
    const std::shared_ptr<Request> request = rdma_.front();
    const WorkRequest& work = request->work;
    const uint64_t offset = request->issued;
    const size_t size = std::min<uint64_t>(request->length - offset, kMaxPayload);
    const bool last = offset + size == request->length;
    if (last && work.has_immediate && request->unanswered > 0) {
      // The immediate tells the target that all is there, so it goes alone. Resolve() continues.
      rdma_.pop_front();
      continue;
    }
    Frame frame = NewFrame(*request);
    frame.rkey = work.rkey;
    frame.address = work.remote_address + offset;
    frame.length = static_cast<uint32_t>(size);
    if (work.operation == WorkRequest::Operation::kRead) {
      frame.kind = FrameKind::kRead;
    } else {
      frame.kind = FrameKind::kWrite;
      frame.total = request->length;
      frame.has_immediate = last && work.has_immediate;
      frame.immediate = work.immediate;
      if (!Gather(work, offset, size, &frame.payload)) {
        rdma_.pop_front();
        request->status = Status::kInvalidLocalKey;
        if (request->unanswered == 0) Finish(*request);
        continue;
      }
    }
    request->issued += size;
    if (last) {
      request->all_issued = true;
      rdma_.pop_front();
    }
    Issue(request, std::move(frame), offset);
  }
}

Frame QueuePair::NewFrame(const Request& request) const {
  Frame frame;
  frame.source_gid = options_.gid;
  frame.source_qpn = options_.qpn;
  frame.qkey = request.work.qkey;
  return frame;
}

void QueuePair::Issue(const std::shared_ptr<Request>& request, Frame frame, uint64_t offset) {
  const uint64_t number = ++last_number_;
  frame.number = number;
  ++request->unanswered;
  if (frame.kind != FrameKind::kSend) ++rdma_packets_;
  const Status status = link_->Transmit(this, request->work.peer, frame);
  if (frame.kind != FrameKind::kSend) frame.payload.clear();
  packets_[number] = Packet{request, std::move(frame), offset, 0};
  if (status != Status::kOk) Resolve(number, status);
}

void QueuePair::HandleAnswer(const Frame& answer) {
  const auto found = packets_.find(answer.number);
  if (found == packets_.end()) return;
  Packet& packet = found->second;
  const WorkRequest& work = packet.request->work;
  if (!(Peer{answer.source_gid, answer.source_qpn} == work.peer)) return;
  Status status = answer.status;
  if (status == Status::kReceiverNotReady) {
    if (rnr_retry_ == kRetryForEver || packet.retries < rnr_retry_) {
      const uint32_t doublings = std::min(packet.retries, kMaxDoublings);
      ++packet.retries;
      link_->RetransmitAfter(kFirstRetry * (1 << doublings), this, answer.number);
      return;
    }
  } else if (status == Status::kOk && packet.frame.kind == FrameKind::kRead) {
    if (answer.payload.size() != packet.frame.length) {
      status = Status::kBadRemoteStatus;
    } else if (!work.buffers.empty()) {
      // The user may have deregistered the buffer meanwhile.
      const ibv_sge& buffer = work.buffers[0];
      const uint64_t address = buffer.addr + packet.offset;
      if (!options_.memory->Grants(options_.domain, buffer.lkey, address, answer.payload.size(),
                                   IBV_ACCESS_LOCAL_WRITE) ||
          !MemoryTable::CopyIn(address, answer.payload.data(), answer.payload.size())) {
        status = Status::kInvalidLocalKey;
      }
    }
  }
  Resolve(answer.number, status);
}

void QueuePair::Retransmit(uint64_t number) {
  const auto found = packets_.find(number);
  if (found == packets_.end()) return;
  Frame frame = found->second.frame;
  const std::shared_ptr<Request> request = found->second.request;
  if (frame.kind == FrameKind::kWrite &&
      !Gather(request->work, found->second.offset, frame.length, &frame.payload)) {
    Resolve(number, Status::kInvalidLocalKey);
    return;
  }
  const Status status = link_->Transmit(this, request->work.peer, frame);
  if (status != Status::kOk) Resolve(number, status);
}

void QueuePair::PeerLost(const Peer& peer) {
  std::vector<uint64_t> lost;
  for (const auto& packet : packets_) {
    if (packet.second.request->work.peer == peer) lost.push_back(packet.first);
  }
  for (uint64_t number : lost) Resolve(number, Status::kBadDestinationQueuePair);
}

void QueuePair::Resolve(uint64_t number, Status status) {
  const auto found = packets_.find(number);
  if (found == packets_.end()) return;
  const std::shared_ptr<Request> request = found->second.request;
  if (found->second.frame.kind != FrameKind::kSend) --rdma_packets_;
  packets_.erase(found);
  --request->unanswered;
  if (status != Status::kOk && request->status == Status::kOk) {
    request->status = status;
    rdma_.erase(std::remove(rdma_.begin(), rdma_.end(), request), rdma_.end());
  }
  if (request->unanswered == 0) {
    if (request->all_issued || request->status != Status::kOk) {
      Finish(*request);
    } else if (std::find(rdma_.begin(), rdma_.end(), request) == rdma_.end()) {
      rdma_.push_front(request);  // only the packet with the immediate is left
    }
  }
  IssueRdma();
}

void QueuePair::Finish(const Request& request) {
  Completion completion;
  completion.slots = send_slots_;
  completion.id = request.work.id;
  completion.status = request.status;
  completion.opcode = OpcodeOf(request.work.operation);
  completion.bytes = static_cast<uint32_t>(request.length);
  completion.qpn = options_.qpn;
  options_.send_queue->Push(completion);
}

void QueuePair::Fail(Request* request, Status status) {
  request->status = status;
  Finish(*request);
}

bool QueuePair::Gather(const WorkRequest& work, uint64_t offset, size_t length,
                       std::string* bytes) const {
  if (work.is_inline) {
    *bytes = work.inline_data.substr(offset, length);
    return true;
  }
  bytes->resize(length);
  size_t done = 0;
  for (const ibv_sge& buffer : work.buffers) {
    if (offset >= buffer.length) {
      offset -= buffer.length;
      continue;
    }
    const size_t size = std::min<uint64_t>(buffer.length - offset, length - done);
    const uint64_t address = buffer.addr + offset;
    if (!options_.memory->Grants(options_.domain, buffer.lkey, address, size, 0) ||
        !MemoryTable::CopyOut(&(*bytes)[done], address, size)) {
      return false;
    }
    done += size;
    offset = 0;
  }
  return done == length;
}

}  // namespace efa_device
