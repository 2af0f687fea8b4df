// Endpoint: messages meet posted receives, in the order in which both came.

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "tests/contract_providers/core/endpoint.h"

namespace contract {

ssize_t Endpoint::PostReceiveLocked(const fi_msg& message, uint64_t flags) {
  if (!enabled()) return -FI_EOPBADSTATE;
  if ((caps_ & FI_MSG) == 0) return -FI_EOPNOTSUPP;
  if (message.iov_count > contract().iov_limit) return -FI_EINVAL;
  if (receives_.size() >= rx_size_) return -FI_EAGAIN;
  Call check;
  check.iov = message.msg_iov;
  check.iov_count = message.iov_count;
  check.descriptors = message.desc;
  if (const int code = CheckDescriptors(check); code != 0) return code;
  Posted posted;
  posted.context = message.context;
  posted.buffers = Buffers(message.msg_iov, message.iov_count);
  posted.size = posted.buffers.size();
  posted.first = message.iov_count > 0 ? message.msg_iov[0].iov_base : nullptr;
  posted.tell = !rx_selective_ || (flags & FI_COMPLETION) != 0;
  if ((caps_ & FI_DIRECTED_RECV) != 0 && message.addr != FI_ADDR_UNSPEC) {
    const AddressVector::Entry* entry = av_->FindLocked(message.addr);
    if (entry == nullptr) return -FI_EINVAL;
    posted.from = av_->IdentityOf(entry->raw.data());
  }
  for (size_t i = 0; i < message.iov_count; ++i) {
    if (message.desc == nullptr || message.desc[i] == nullptr) continue;
    auto* region = static_cast<Region*>(message.desc[i]);
    ++region->posted_receives;
    posted.keys.push_back(region->handle.key);
  }
  for (auto entry = unexpected_.begin(); entry != unexpected_.end(); ++entry) {
    if (!posted.from.empty() && posted.from != entry->from->identity) continue;
    Deliver(posted, *entry);
    unexpected_.erase(entry);
    return 0;
  }
  receives_.push_back(std::move(posted));
  return 0;
}

void Endpoint::Unhold(const Posted& posted) {
  // By key, because a region may have been closed under a receive.
  for (uint64_t key : posted.keys) {
    auto found = domain_->regions.find(key);
    if (found != domain_->regions.end()) --found->second->posted_receives;
  }
}

ssize_t Endpoint::CancelLocked(void* context) {
  for (auto entry = receives_.begin(); entry != receives_.end(); ++entry) {
    if (entry->context != context) continue;
    Unhold(*entry);
    Completion completion;
    completion.context = context;
    completion.flags = FI_MSG | FI_RECV;
    completion.error = FI_ECANCELED;
    rx_cq_->PushLocked(completion);
    receives_.erase(entry);
    return 0;
  }
  return -FI_ENOENT;
}

void Endpoint::OnMessagePart(Peer* from, const PacketHeader& header, const uint8_t* payload) {
  Message& message = from->messages[header.operation];
  if (message.from == nullptr) {
    message.header = header;
    message.from = from;
    message.bytes.resize(header.total);
  }
  if (header.payload > 0) memcpy(message.bytes.data() + header.offset, payload, header.payload);
  message.received += header.payload;
  if (message.received < header.total) return;
  Message whole = std::move(message);
  from->messages.erase(header.operation);
  Match(std::move(whole));
}

void Endpoint::Match(Message message) {
  for (auto entry = receives_.begin(); entry != receives_.end(); ++entry) {
    if (!entry->from.empty() && entry->from != message.from->identity) continue;
    const Posted posted = std::move(*entry);
    receives_.erase(entry);
    Deliver(posted, message);
    return;
  }
  unexpected_.push_back(std::move(message));
}

void Endpoint::Deliver(const Posted& posted, const Message& message) {
  Unhold(posted);
  const PacketHeader& header = message.header;
  const uint64_t bytes = std::min<uint64_t>(posted.size, header.total);
  posted.buffers.CopyIn(0, bytes, message.bytes.data());

  Completion completion;
  completion.context = posted.context;
  completion.flags = FI_MSG | FI_RECV;
  completion.length = bytes;
  completion.buffer = posted.first;
  if ((header.flags & kImmediate) != 0) {
    completion.flags |= FI_REMOTE_CQ_DATA;
    completion.data = header.data;
    if (contract().cq_data_bytes < sizeof(completion.data)) {
      completion.data &= (uint64_t{1} << (8 * contract().cq_data_bytes)) - 1;
    }
  } else if (domain_->config->entries) {
    completion.data = Garbage(header.fate, 2);
  }
  if ((caps_ & FI_SOURCE) != 0) completion.source = av_->FindLocked(message.from->identity);
  if (header.total > posted.size) {
    completion.error = FI_ETRUNC;
    completion.missing = header.total - posted.size;
  }
  if (posted.tell || completion.error != 0) rx_cq_->PushLocked(completion);
  if ((header.flags & kDeliveryComplete) != 0) Answer(message.from, header, 0);

  bool overtook = std::any_of(parked_writes_.begin(), parked_writes_.end(), [&](const auto& write) {
    return write->from == message.from && write->header.operation < header.operation;
  });
  if (!message.from->writes.empty()) {
    overtook = overtook || message.from->writes.begin()->first < header.operation;
  }
  if (overtook) ++statistics_.sends_overtook;
}

}  // namespace contract
