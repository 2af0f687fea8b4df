// libfabric's table for messages, and the empty one for tagged messages.

#include <rdma/fi_errno.h>

#include "tests/contract_providers/core/endpoint.h"
#include "tests/contract_providers/core/stubs.h"

namespace contract {
namespace {

ssize_t Post(fid_ep* handle, const Call& call) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->PostLocked(call);
}

ssize_t PostReceive(fid_ep* handle, const fi_msg& message, uint64_t flags) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->PostReceiveLocked(message, flags);
}

ssize_t ReceiveMessage(fid_ep* handle, const fi_msg* message, uint64_t flags) {
  if ((flags & FI_MULTI_RECV) != 0) return -FI_ENOSYS;
  return PostReceive(handle, *message, flags);
}

ssize_t ReceiveVector(fid_ep* handle, const iovec* iov, void** descriptors, size_t count,
                      fi_addr_t from, void* context) {
  fi_msg message = {};
  message.msg_iov = iov;
  message.desc = descriptors;
  message.iov_count = count;
  message.addr = from;
  message.context = context;
  return PostReceive(handle, message, 0);
}

ssize_t Receive(fid_ep* handle, void* buffer, size_t length, void* descriptor, fi_addr_t from,
                void* context) {
  const iovec iov = {buffer, length};
  return ReceiveVector(handle, &iov, &descriptor, 1, from, context);
}

ssize_t SendMessage(fid_ep* handle, const fi_msg* message, uint64_t flags) {
  Call call;
  call.iov = message->msg_iov;
  call.descriptors = message->desc;
  call.iov_count = message->iov_count;
  call.peer = message->addr;
  call.context = message->context;
  call.data = message->data;
  call.flags = flags;
  return Post(handle, call);
}

// The functions that take no flags use those that the endpoint was opened with.
uint64_t DefaultFlags(fid_ep* handle) { return ObjectOf<Endpoint>(handle)->tx_flags(); }

ssize_t SendVector(fid_ep* handle, const iovec* iov, void** descriptors, size_t count, fi_addr_t to,
                   void* context) {
  fi_msg message = {};
  message.msg_iov = iov;
  message.desc = descriptors;
  message.iov_count = count;
  message.addr = to;
  message.context = context;
  return SendMessage(handle, &message, DefaultFlags(handle));
}

ssize_t Send(fid_ep* handle, const void* buffer, size_t length, void* descriptor, fi_addr_t to,
             void* context) {
  const iovec iov = {const_cast<void*>(buffer), length};
  return SendVector(handle, &iov, &descriptor, 1, to, context);
}

ssize_t SendData(fid_ep* handle, const void* buffer, size_t length, void* descriptor, uint64_t data,
                 fi_addr_t to, void* context) {
  const iovec iov = {const_cast<void*>(buffer), length};
  fi_msg message = {};
  message.msg_iov = &iov;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = to;
  message.context = context;
  message.data = data;
  return SendMessage(handle, &message, DefaultFlags(handle) | FI_REMOTE_CQ_DATA);
}

ssize_t InjectWith(fid_ep* handle, const void* buffer, size_t length, uint64_t data, fi_addr_t to,
                   uint64_t flags) {
  const iovec iov = {const_cast<void*>(buffer), length};
  Call call;
  call.iov = &iov;
  call.iov_count = 1;
  call.peer = to;
  call.data = data;
  call.flags = FI_INJECT | flags;
  call.silent = true;
  return Post(handle, call);
}

ssize_t Inject(fid_ep* handle, const void* buffer, size_t length, fi_addr_t to) {
  return InjectWith(handle, buffer, length, 0, to, 0);
}

ssize_t InjectData(fid_ep* handle, const void* buffer, size_t length, uint64_t data, fi_addr_t to) {
  return InjectWith(handle, buffer, length, data, to, FI_REMOTE_CQ_DATA);
}

}  // namespace

fi_ops_msg* MessageOps() {
  static fi_ops_msg ops = [] {
    fi_ops_msg table = {};
    table.size = sizeof(table);
    table.recv = Receive;
    table.recvv = ReceiveVector;
    table.recvmsg = ReceiveMessage;
    table.send = Send;
    table.sendv = SendVector;
    table.sendmsg = SendMessage;
    table.inject = Inject;
    table.senddata = SendData;
    table.injectdata = InjectData;
    return table;
  }();
  return &ops;
}

// Both contracts grant FI_TAGGED. Nothing here needs it, so it is the one capability that is told
// and not served.
fi_ops_tagged* TaggedOps() {
  static fi_ops_tagged ops = [] {
    fi_ops_tagged table = {};
    table.size = sizeof(table);
    StubAll(&table.recv, &table.recvv, &table.recvmsg, &table.send, &table.sendv, &table.sendmsg,
            &table.inject, &table.senddata, &table.injectdata);
    return table;
  }();
  return &ops;
}

}  // namespace contract
