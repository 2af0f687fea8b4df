#include "src/transport/spin_escape/guarded_calls.h"

#include <chrono>
#include <type_traits>

#include "absl/base/optimization.h"

namespace invoker::transport {
namespace {

// For a part of the limit: shorter than a peer that was removed keeps its address.
constexpr int64_t kRefusalDivisor = 5;

int64_t SteadyNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

template <typename Object>
GuardedCalls& GuardedCalls::Of(const Object* object) {
  static_assert(std::is_standard_layout_v<Guarded<Object>>, "the address is that of the first");
  return *reinterpret_cast<const Guarded<Object>*>(object)->owner;
}

bool GuardedCalls::Refuses(fi_addr_t peer) const {
  return lost_ || (peer == kept_by_ && SteadyNs() < kept_until_ns_);
}

void GuardedCalls::NoteLeft(fi_addr_t peer) {
  has_left_ = true;
  kept_by_ = peer;
  kept_until_ns_ = SteadyNs() + limit_ns_ / kRefusalDivisor;
  if (!posts_are_clean_) lost_ = true;
}

template <typename Call>
ssize_t GuardedCalls::Post(fi_addr_t peer, const Call& call) {
  if (ABSL_PREDICT_FALSE(has_left_) && Refuses(peer)) return SpinEscape::kLeft;
  return escape_.Run(call, [this, peer] { NoteLeft(peer); });
}

template <typename Call>
ssize_t GuardedCalls::Own(const Call& call) {
  if (ABSL_PREDICT_FALSE(lost_)) return SpinEscape::kLeft;
  return escape_.Run(call, [this] { lost_ = has_left_ = true; });
}

bool GuardedCalls::Possible(const fid_ep* endpoint, const fid_cq* queue) {
  return SpinEscape::Supported() &&
         SpinEscape::CanUnwind(reinterpret_cast<const void*>(endpoint->rma->injectdata)) &&
         SpinEscape::CanUnwind(reinterpret_cast<const void*>(queue->ops->read));
}

GuardedCalls::GuardedCalls(fid_ep* endpoint, fid_cq* queue, absl::Duration limit,
                           bool posts_are_clean)
    : endpoint_(endpoint),
      queue_(queue),
      guarded_endpoint_{{}, this},
      guarded_queue_{{}, this},
      limit_ns_(absl::ToInt64Nanoseconds(limit)),
      posts_are_clean_(posts_are_clean),
      escape_(limit) {
  rma_.injectdata = InjectData;
  rma_.writedata = WriteData;
  rma_.write = Write;
  rma_.writemsg = WriteMessage;
  rma_.read = Read;
  msg_.send = Send;
  msg_.recv = Receive;
  atomic_.write = Atomic;
  cq_.read = ReadQueue;
  guarded_endpoint_.object.rma = &rma_;
  guarded_endpoint_.object.msg = &msg_;
  guarded_endpoint_.object.atomic = &atomic_;
  guarded_queue_.object.ops = &cq_;
}

ssize_t GuardedCalls::InjectData(fid_ep* endpoint, const void* source, size_t bytes, uint64_t data,
                                 fi_addr_t peer, uint64_t address, uint64_t key) {
  GuardedCalls& self = Of(endpoint);
  return self.Post(peer, [&] {
    return self.endpoint_->rma->injectdata(self.endpoint_, source, bytes, data, peer, address, key);
  });
}

ssize_t GuardedCalls::WriteData(fid_ep* endpoint, const void* source, size_t bytes,
                                void* descriptor, uint64_t data, fi_addr_t peer, uint64_t address,
                                uint64_t key, void* context) {
  GuardedCalls& self = Of(endpoint);
  return self.Post(peer, [&] {
    return self.endpoint_->rma->writedata(self.endpoint_, source, bytes, descriptor, data, peer,
                                          address, key, context);
  });
}

ssize_t GuardedCalls::Write(fid_ep* endpoint, const void* source, size_t bytes, void* descriptor,
                            fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
  GuardedCalls& self = Of(endpoint);
  return self.Post(peer, [&] {
    return self.endpoint_->rma->write(self.endpoint_, source, bytes, descriptor, peer, address, key,
                                      context);
  });
}

ssize_t GuardedCalls::WriteMessage(fid_ep* endpoint, const fi_msg_rma* message, uint64_t flags) {
  GuardedCalls& self = Of(endpoint);
  return self.Post(message->addr,
                   [&] { return self.endpoint_->rma->writemsg(self.endpoint_, message, flags); });
}

ssize_t GuardedCalls::Read(fid_ep* endpoint, void* target, size_t bytes, void* descriptor,
                           fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
  GuardedCalls& self = Of(endpoint);
  return self.Post(peer, [&] {
    return self.endpoint_->rma->read(self.endpoint_, target, bytes, descriptor, peer, address, key,
                                     context);
  });
}

ssize_t GuardedCalls::Send(fid_ep* endpoint, const void* source, size_t bytes, void* descriptor,
                           fi_addr_t peer, void* context) {
  GuardedCalls& self = Of(endpoint);
  return self.Post(peer, [&] {
    return self.endpoint_->msg->send(self.endpoint_, source, bytes, descriptor, peer, context);
  });
}

// What has come for it already is taken from our own queue.
ssize_t GuardedCalls::Receive(fid_ep* endpoint, void* target, size_t bytes, void* descriptor,
                              fi_addr_t peer, void* context) {
  GuardedCalls& self = Of(endpoint);
  return self.Own([&] {
    return self.endpoint_->msg->recv(self.endpoint_, target, bytes, descriptor, peer, context);
  });
}

ssize_t GuardedCalls::Atomic(fid_ep* endpoint, const void* operand, size_t count, void* descriptor,
                             fi_addr_t peer, uint64_t address, uint64_t key, fi_datatype type,
                             fi_op op, void* context) {
  GuardedCalls& self = Of(endpoint);
  return self.Post(peer, [&] {
    return self.endpoint_->atomic->write(self.endpoint_, operand, count, descriptor, peer, address,
                                         key, type, op, context);
  });
}

ssize_t GuardedCalls::ReadQueue(fid_cq* queue, void* entries, size_t count) {
  GuardedCalls& self = Of(queue);
  return self.Own([&] { return self.queue_->ops->read(self.queue_, entries, count); });
}

}  // namespace invoker::transport
