// libfabric's table for remote reads and writes.

#include <rdma/fi_errno.h>

#include "tests/contract_providers/core/endpoint.h"

namespace contract {
namespace {

ssize_t PostMessage(fid_ep* handle, PacketKind kind, const fi_msg_rma& message, uint64_t flags,
                    bool silent = false) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  if (message.rma_iov_count == 0 || message.rma_iov_count > endpoint->contract().rma_iov_limit) {
    return -FI_EINVAL;
  }
  Call call;
  call.kind = kind;
  call.iov = message.msg_iov;
  call.descriptors = message.desc;
  call.iov_count = message.iov_count;
  call.peer = message.addr;
  call.address = message.rma_iov[0].addr;
  call.remote_length = message.rma_iov[0].len;
  call.key = message.rma_iov[0].key;
  call.data = message.data;
  call.context = message.context;
  call.flags = flags;
  call.silent = silent;
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->PostLocked(call);
}

uint64_t DefaultFlags(fid_ep* handle) { return ObjectOf<Endpoint>(handle)->tx_flags(); }

ssize_t PostVector(fid_ep* handle, PacketKind kind, const iovec* iov, void** descriptors,
                   size_t count, fi_addr_t peer, uint64_t address, uint64_t key, uint64_t data,
                   void* context, uint64_t flags, bool silent = false) {
  fi_rma_iov remote = {address, 0, key};
  for (size_t i = 0; i < count; ++i) remote.len += iov[i].iov_len;
  fi_msg_rma message = {};
  message.msg_iov = iov;
  message.desc = descriptors;
  message.iov_count = count;
  message.addr = peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = context;
  message.data = data;
  return PostMessage(handle, kind, message, flags, silent);
}

ssize_t PostBuffer(fid_ep* handle, PacketKind kind, const void* buffer, size_t length,
                   void* descriptor, fi_addr_t peer, uint64_t address, uint64_t key, uint64_t data,
                   void* context, uint64_t flags, bool silent = false) {
  const iovec iov = {const_cast<void*>(buffer), length};
  return PostVector(handle, kind, &iov, &descriptor, 1, peer, address, key, data, context, flags,
                    silent);
}

ssize_t Read(fid_ep* handle, void* buffer, size_t length, void* descriptor, fi_addr_t from,
             uint64_t address, uint64_t key, void* context) {
  return PostBuffer(handle, PacketKind::kRead, buffer, length, descriptor, from, address, key, 0,
                    context, DefaultFlags(handle));
}

ssize_t ReadVector(fid_ep* handle, const iovec* iov, void** descriptors, size_t count,
                   fi_addr_t from, uint64_t address, uint64_t key, void* context) {
  return PostVector(handle, PacketKind::kRead, iov, descriptors, count, from, address, key, 0,
                    context, DefaultFlags(handle));
}

ssize_t ReadMessage(fid_ep* handle, const fi_msg_rma* message, uint64_t flags) {
  return PostMessage(handle, PacketKind::kRead, *message, flags);
}

ssize_t Write(fid_ep* handle, const void* buffer, size_t length, void* descriptor, fi_addr_t to,
              uint64_t address, uint64_t key, void* context) {
  return PostBuffer(handle, PacketKind::kWrite, buffer, length, descriptor, to, address, key, 0,
                    context, DefaultFlags(handle));
}

ssize_t WriteVector(fid_ep* handle, const iovec* iov, void** descriptors, size_t count,
                    fi_addr_t to, uint64_t address, uint64_t key, void* context) {
  return PostVector(handle, PacketKind::kWrite, iov, descriptors, count, to, address, key, 0,
                    context, DefaultFlags(handle));
}

ssize_t WriteMessage(fid_ep* handle, const fi_msg_rma* message, uint64_t flags) {
  return PostMessage(handle, PacketKind::kWrite, *message, flags);
}

ssize_t WriteData(fid_ep* handle, const void* buffer, size_t length, void* descriptor,
                  uint64_t data, fi_addr_t to, uint64_t address, uint64_t key, void* context) {
  return PostBuffer(handle, PacketKind::kWrite, buffer, length, descriptor, to, address, key, data,
                    context, DefaultFlags(handle) | FI_REMOTE_CQ_DATA);
}

ssize_t InjectWrite(fid_ep* handle, const void* buffer, size_t length, fi_addr_t to,
                    uint64_t address, uint64_t key) {
  return PostBuffer(handle, PacketKind::kWrite, buffer, length, nullptr, to, address, key, 0,
                    nullptr, FI_INJECT, true);
}

ssize_t InjectWriteData(fid_ep* handle, const void* buffer, size_t length, uint64_t data,
                        fi_addr_t to, uint64_t address, uint64_t key) {
  return PostBuffer(handle, PacketKind::kWrite, buffer, length, nullptr, to, address, key, data,
                    nullptr, FI_INJECT | FI_REMOTE_CQ_DATA, true);
}

}  // namespace

fi_ops_rma* RmaOps() {
  static fi_ops_rma ops = [] {
    fi_ops_rma table = {};
    table.size = sizeof(table);
    table.read = Read;
    table.readv = ReadVector;
    table.readmsg = ReadMessage;
    table.write = Write;
    table.writev = WriteVector;
    table.writemsg = WriteMessage;
    table.inject = InjectWrite;
    table.writedata = WriteData;
    table.injectdata = InjectWriteData;
    return table;
  }();
  return &ops;
}

}  // namespace contract
