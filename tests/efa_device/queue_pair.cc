#include "tests/efa_device/queue_pair.h"

#include <cerrno>
#include <utility>

namespace efa_device {
namespace {

// Retries that the card makes for a message that finds no receive, unless the user says otherwise.
constexpr uint8_t kDefaultRnrRetry = 3;
constexpr uint8_t kMaxRnrRetry = 7;

}  // namespace

uint64_t WorkRequest::length() const {
  if (is_inline) return inline_data.size();
  uint64_t length = 0;
  for (const ibv_sge& buffer : buffers) length += buffer.length;
  return length;
}

QueuePair::QueuePair(const Options& options, const Faults::Stream& faults, Link* link)
    : options_(options),
      faults_(faults),
      link_(link),
      rnr_retry_(kDefaultRnrRetry),
      send_slots_(std::make_shared<std::atomic<size_t>>(0)),
      receive_slots_(std::make_shared<std::atomic<size_t>>(0)) {}

int QueuePair::Modify(const ibv_qp_attr& attributes, int mask) {
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  int required = IBV_QP_STATE;
  int optional = IBV_QP_CUR_STATE;
  switch (attributes.qp_state) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
      break;
    case IBV_QPS_INIT:
      if (state_ != IBV_QPS_RESET) return EINVAL;
      required |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
      if (attributes.port_num != 1 || attributes.pkey_index != 0) return EINVAL;
      break;
    case IBV_QPS_RTR:
      if (state_ != IBV_QPS_INIT) return EINVAL;
      break;
    case IBV_QPS_RTS:
      if (state_ != IBV_QPS_RTR) return EINVAL;
      required |= IBV_QP_SQ_PSN;
      if (!options_.unreliable) optional |= IBV_QP_RNR_RETRY;
      break;
    default:
      return EINVAL;
  }
  if ((mask & required) != required || (mask & ~(required | optional)) != 0) return EINVAL;
  if ((mask & IBV_QP_RNR_RETRY) != 0) {
    if (!options_.attributes->has(kCapRnrRetry)) return EOPNOTSUPP;
    if (attributes.rnr_retry > kMaxRnrRetry) return EINVAL;
    rnr_retry_ = attributes.rnr_retry;
  }
  if ((mask & IBV_QP_QKEY) != 0) qkey_ = attributes.qkey;
  if (attributes.qp_state == IBV_QPS_ERR && state_ != IBV_QPS_ERR) EnterError();
  if (attributes.qp_state == IBV_QPS_RESET) {
    packets_.clear();
    rdma_.clear();
    receives_.clear();
    rdma_packets_ = 0;
    send_slots_ = std::make_shared<std::atomic<size_t>>(0);
    receive_slots_ = std::make_shared<std::atomic<size_t>>(0);
  }
  state_ = attributes.qp_state;
  return 0;
}

void QueuePair::EnterError() {
  for (const ReceiveRequest& receive : receives_) {
    Completion completion;
    completion.id = receive.id;
    completion.slots = receive_slots_;
    completion.status = Status::kFlushed;
    completion.opcode = IBV_WC_RECV;
    completion.qpn = options_.qpn;
    options_.receive_queue->Push(completion);
  }
  receives_.clear();
  // Requests that were not sent, and requests without an answer. Each ends once.
  std::map<const Request*, std::shared_ptr<Request>> open;
  for (const auto& request : rdma_) open[request.get()] = request;
  for (const auto& packet : packets_) open[packet.second.request.get()] = packet.second.request;
  rdma_.clear();
  packets_.clear();
  rdma_packets_ = 0;
  for (const auto& request : open) {
    Fail(request.second.get(), Status::kFlushed);
  }
}

}  // namespace efa_device
