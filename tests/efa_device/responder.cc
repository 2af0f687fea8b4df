// The receiving half of a queue pair.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/efa_device/queue_pair.h"

namespace efa_device {
namespace {

// A UD receive begins with these bytes; the datagram follows.
constexpr size_t kGlobalRouteHeader = 40;

}  // namespace

int QueuePair::PostReceive(ReceiveRequest request) {
  if (state_ == IBV_QPS_RESET || state_ == IBV_QPS_ERR) return EINVAL;
  if (request.buffers.size() > options_.max_receive_sge) return EINVAL;
  if (*receive_slots_ >= options_.max_receives || faults_.Strikes(Fault::kReceiveFull)) {
    return ENOMEM;
  }
  ++*receive_slots_;
  receives_.push_back(std::move(request));
  return 0;
}

bool QueuePair::HandleRequest(const Frame& request, Frame* answer) {
  *answer = AnswerTo(request, options_.gid, options_.qpn);
  if ((state_ != IBV_QPS_RTR && state_ != IBV_QPS_RTS) || request.qkey != qkey_ ||
      request.unreliable != options_.unreliable) {
    answer->status = Status::kBadDestinationQueuePair;
    return !request.unreliable;
  }
  switch (request.kind) {
    case FrameKind::kSend:
      answer->status = Receive(request);
      break;
    case FrameKind::kRead:
      answer->status = Read(request, &answer->payload);
      break;
    case FrameKind::kWrite:
      answer->status = Write(request);
      break;
    case FrameKind::kAnswer:
      return false;
  }
  return !request.unreliable;
}

Completion QueuePair::ReceiveCompletion(const Frame& request) const {
  Completion completion;
  completion.opcode = IBV_WC_RECV;
  completion.bytes = static_cast<uint32_t>(request.payload.size());
  completion.qpn = options_.qpn;
  completion.source_qpn = request.source_qpn;
  completion.source_gid = request.source_gid;
  completion.address_handle = options_.handles->Find(request.source_gid);
  completion.has_immediate = request.has_immediate;
  completion.immediate = request.immediate;
  return completion;
}

Status QueuePair::Receive(const Frame& request) {
  if (faults_.Strikes(Fault::kNotReady) || receives_.empty()) return Status::kReceiverNotReady;
  const ReceiveRequest receive = std::move(receives_.front());
  receives_.pop_front();
  std::string bytes;
  if (options_.unreliable) bytes.assign(kGlobalRouteHeader, '\0');
  bytes += request.payload;
  Completion completion = ReceiveCompletion(request);
  completion.id = receive.id;
  completion.slots = receive_slots_;
  completion.bytes = static_cast<uint32_t>(bytes.size());
  completion.status = Scatter(receive, bytes);
  options_.receive_queue->Push(completion);
  switch (completion.status) {
    case Status::kOk:
      return Status::kOk;
    case Status::kBadLocalLength:
      return Status::kBadRemoteLength;
    default:
      return Status::kBadRemoteStatus;
  }
}

Status QueuePair::Read(const Frame& request, std::string* data) {
  if (faults_.Strikes(Fault::kBadKey)) return Status::kBadRemoteAddress;
  if (!options_.memory->Grants(options_.domain, request.rkey, request.address, request.length,
                               IBV_ACCESS_REMOTE_READ)) {
    return Status::kBadRemoteAddress;
  }
  data->resize(request.length);
  if (MemoryTable::CopyOut(&(*data)[0], request.address, request.length)) return Status::kOk;
  data->clear();
  return Status::kBadRemoteAddress;
}

Status QueuePair::Write(const Frame& request) {
  if (faults_.Strikes(Fault::kBadKey)) return Status::kBadRemoteAddress;
  const size_t size = request.payload.size();
  // Even a write of no bytes needs a key.
  if (!options_.memory->Grants(options_.domain, request.rkey, request.address, size,
                               IBV_ACCESS_REMOTE_WRITE)) {
    return Status::kBadRemoteAddress;
  }
  const bool consumes = request.has_immediate && !options_.unsolicited;
  if (consumes && (faults_.Strikes(Fault::kNotReady) || receives_.empty())) {
    return Status::kReceiverNotReady;
  }
  if (!MemoryTable::CopyIn(request.address, request.payload.data(), size)) {
    return Status::kBadRemoteAddress;
  }
  if (request.has_immediate) {
    Completion completion = ReceiveCompletion(request);
    completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    completion.bytes = static_cast<uint32_t>(request.total);
    completion.unsolicited = options_.unsolicited;
    if (consumes) {
      completion.id = receives_.front().id;
      completion.slots = receive_slots_;
      receives_.pop_front();
    }
    options_.receive_queue->Push(completion);
  }
  return Status::kOk;
}

Status QueuePair::Scatter(const ReceiveRequest& receive, const std::string& bytes) const {
  uint64_t room = 0;
  for (const ibv_sge& buffer : receive.buffers) room += buffer.length;
  if (room < bytes.size()) return Status::kBadLocalLength;
  size_t done = 0;
  for (const ibv_sge& buffer : receive.buffers) {
    const size_t size = std::min<size_t>(buffer.length, bytes.size() - done);
    if (!options_.memory->Grants(options_.domain, buffer.lkey, buffer.addr, size,
                                 IBV_ACCESS_LOCAL_WRITE) ||
        !MemoryTable::CopyIn(buffer.addr, bytes.data() + done, size)) {
      return Status::kInvalidLocalKey;
    }
    done += size;
  }
  return Status::kOk;
}

}  // namespace efa_device
