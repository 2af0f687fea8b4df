// Writes and sends: done at once, by the thread that posts.

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <mutex>

#include "tests/budget/lockstep/objects.h"
#include "tests/contract_providers/core/stubs.h"

namespace invoker::lockstep {
namespace {

struct Write {
  const iovec* parts;
  size_t part_count;
  fi_addr_t peer;
  uint64_t address;
  uint64_t key;
  void* context;
  uint64_t flags;  // FI_REMOTE_CQ_DATA, FI_INJECT
  uint64_t data;
  bool completes;
};

// Not by the C library: its instructions count as the program's.
void Copy(void* to, const void* from, size_t bytes) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

size_t BytesIn(const iovec* parts, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

Endpoint* PeerOf(const Endpoint& endpoint, fi_addr_t peer) {
  const std::vector<uint32_t>& known = endpoint.addresses->endpoints;
  return peer < known.size() ? FindEndpoint(known[peer]) : nullptr;
}

// Where `bytes` go, or nullptr.
std::byte* Target(const Domain& domain, uint64_t key, uint64_t address, size_t bytes) {
  for (const Region* region : domain.regions) {
    if (region->handle.key != key || (region->access & FI_REMOTE_WRITE) == 0) continue;
    const bool is_virtual = (domain.mr_mode & FI_MR_VIRT_ADDR) != 0;
    const uint64_t base = is_virtual ? reinterpret_cast<uintptr_t>(region->data) : 0;
    if (address < base || bytes > region->size || address - base > region->size - bytes) break;
    return region->data + (address - base);
  }
  return nullptr;
}

ssize_t Post(Endpoint* endpoint, const Write& write) {
  std::lock_guard<StepLock> guard(Lock());
  const size_t bytes = BytesIn(write.parts, write.part_count);
  if ((write.flags & FI_INJECT) != 0 && bytes > endpoint->inject_bytes) return -FI_EMSGSIZE;
  Endpoint* peer = PeerOf(*endpoint, write.peer);
  if (peer == nullptr) return -FI_EHOSTUNREACH;
  std::byte* target = Target(*peer->domain, write.key, write.address, bytes);
  if (target == nullptr) return -FI_EACCES;
  if (!endpoint->queue->HasRoom() || !peer->queue->HasRoom()) return -FI_EAGAIN;
  for (size_t i = 0; i < write.part_count; ++i) {
    Copy(target, write.parts[i].iov_base, write.parts[i].iov_len);
    target += write.parts[i].iov_len;
  }
  if (write.completes) {
    endpoint->queue->PushOwn({write.context, FI_RMA | FI_WRITE, 0, nullptr, 0});
  }
  if ((write.flags & FI_REMOTE_CQ_DATA) != 0) {
    const uint64_t flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
    peer->queue->PushRemote({nullptr, flags, bytes, nullptr, write.data}, endpoint->queue);
  }
  return 0;
}

// Whether an operation completes that says nothing of it.
bool CompletesByDefault(const Endpoint& endpoint) {
  return !endpoint.selective || endpoint.completes_unasked;
}

ssize_t WriteParts(fid_ep* handle, const iovec* parts, void**, size_t count, fi_addr_t peer,
                   uint64_t address, uint64_t key, void* context) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  return Post(endpoint,
              {parts, count, peer, address, key, context, 0, 0, CompletesByDefault(*endpoint)});
}

ssize_t WriteBytes(fid_ep* handle, const void* buffer, size_t bytes, void* descriptor,
                   fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
  const iovec part = {const_cast<void*>(buffer), bytes};
  return WriteParts(handle, &part, &descriptor, 1, peer, address, key, context);
}

ssize_t WriteMessage(fid_ep* handle, const fi_msg_rma* message, uint64_t flags) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  if (message->rma_iov_count != 1) return -FI_EINVAL;
  return Post(endpoint, {message->msg_iov, message->iov_count, message->addr,
                         message->rma_iov->addr, message->rma_iov->key, message->context, flags,
                         message->data, !endpoint->selective || (flags & FI_COMPLETION) != 0});
}

ssize_t WriteWithData(fid_ep* handle, const void* buffer, size_t bytes, void*, uint64_t data,
                      fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  const iovec part = {const_cast<void*>(buffer), bytes};
  return Post(endpoint, {&part, 1, peer, address, key, context, FI_REMOTE_CQ_DATA, data,
                         CompletesByDefault(*endpoint)});
}

ssize_t InjectWrite(fid_ep* handle, const void* buffer, size_t bytes, fi_addr_t peer,
                    uint64_t address, uint64_t key) {
  const iovec part = {const_cast<void*>(buffer), bytes};
  return Post(ObjectOf<Endpoint>(handle),
              {&part, 1, peer, address, key, nullptr, FI_INJECT, 0, false});
}

ssize_t InjectWithData(fid_ep* handle, const void* buffer, size_t bytes, uint64_t data,
                       fi_addr_t peer, uint64_t address, uint64_t key) {
  const iovec part = {const_cast<void*>(buffer), bytes};
  return Post(ObjectOf<Endpoint>(handle),
              {&part, 1, peer, address, key, nullptr, FI_INJECT | FI_REMOTE_CQ_DATA, data, false});
}

ssize_t PostReceive(fid_ep* handle, void* buffer, size_t size, void*, fi_addr_t, void* context) {
  std::lock_guard<StepLock> guard(Lock());
  ObjectOf<Endpoint>(handle)->receives.push_back({buffer, size, context});
  return 0;
}

ssize_t Send(fid_ep* handle, const void* buffer, size_t bytes, void*, fi_addr_t to, void* context) {
  std::lock_guard<StepLock> guard(Lock());
  auto* endpoint = ObjectOf<Endpoint>(handle);
  Endpoint* peer = PeerOf(*endpoint, to);
  if (peer == nullptr) return -FI_EHOSTUNREACH;
  if (peer->receives.empty() || !peer->queue->HasRoom() || !endpoint->queue->HasRoom()) {
    return -FI_EAGAIN;
  }
  const Receive receive = peer->receives.front();
  if (bytes > receive.size) return -FI_EMSGSIZE;
  peer->receives.pop_front();
  Copy(receive.buffer, buffer, bytes);
  if (CompletesByDefault(*endpoint)) {
    endpoint->queue->PushOwn({context, FI_MSG | FI_SEND, 0, nullptr, 0});
  }
  peer->queue->PushRemote({receive.context, FI_MSG | FI_RECV, bytes, receive.buffer, 0},
                          endpoint->queue);
  return 0;
}

}  // namespace

fi_ops_rma rma_ops = [] {
  fi_ops_rma table = {};
  table.size = sizeof(table);
  table.write = WriteBytes;
  table.writev = WriteParts;
  table.writemsg = WriteMessage;
  table.writedata = WriteWithData;
  table.inject = InjectWrite;
  table.injectdata = InjectWithData;
  contract::StubAll(&table.read, &table.readv, &table.readmsg);
  return table;
}();

fi_ops_msg msg_ops = [] {
  fi_ops_msg table = {};
  table.size = sizeof(table);
  table.recv = PostReceive;
  table.send = Send;
  contract::StubAll(&table.recvv, &table.recvmsg, &table.sendv, &table.sendmsg, &table.inject,
                    &table.senddata, &table.injectdata);
  return table;
}();

}  // namespace invoker::lockstep
