// Writes and sends: what an endpoint posts.

#include <rdma/fi_errno.h>

#include <cstring>

#include "tests/contract_providers/core/stubs.h"
#include "tests/fuzz/fabric/network.h"
#include "tests/fuzz/fabric/objects.h"

namespace invoker::fuzz {
namespace {

bool CompletesByDefault(const Endpoint& endpoint) {
  return !endpoint.selective || endpoint.completes_unasked;
}

ssize_t Post(fid_ep* handle, fi_addr_t peer, Flight flight, uint64_t flags) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  if (peer >= endpoint->addresses->endpoints.size()) return -FI_EINVAL;
  if (Network::Get().TakeRefusal()) return -FI_EAGAIN;
  flight.from = endpoint;
  flight.to = endpoint->addresses->endpoints[peer];
  flight.wants_delivery = (flags & FI_DELIVERY_COMPLETE) != 0;
  if ((flags & FI_INJECT) != 0) {
    const auto* bytes = static_cast<const std::byte*>(flight.source);
    flight.copied.assign(bytes, bytes + flight.bytes);
    flight.source = nullptr;
  }
  flight.completed = !flight.completes;
  flight.announced = !flight.has_data && !flight.is_send;
  Network::Get().Post(std::move(flight));
  return 0;
}

Flight MakeWrite(const void* buffer, size_t bytes, uint64_t address, uint64_t key, void* context,
                 bool completes) {
  Flight flight;
  flight.source = buffer;
  flight.bytes = bytes;
  flight.address = address;
  flight.key = key;
  flight.context = context;
  flight.flags = FI_RMA | FI_WRITE;
  flight.completes = completes;
  return flight;
}

ssize_t WriteBytes(fid_ep* handle, const void* buffer, size_t bytes, void*, fi_addr_t peer,
                   uint64_t address, uint64_t key, void* context) {
  const bool completes = CompletesByDefault(*ObjectOf<Endpoint>(handle));
  return Post(handle, peer, MakeWrite(buffer, bytes, address, key, context, completes), 0);
}

ssize_t WriteMessage(fid_ep* handle, const fi_msg_rma* message, uint64_t flags) {
  if (message->rma_iov_count != 1 || message->iov_count != 1) return -FI_EINVAL;
  const bool completes = !ObjectOf<Endpoint>(handle)->selective || (flags & FI_COMPLETION) != 0;
  Flight flight =
      MakeWrite(message->msg_iov->iov_base, message->msg_iov->iov_len, message->rma_iov->addr,
                message->rma_iov->key, message->context, completes);
  flight.has_data = (flags & FI_REMOTE_CQ_DATA) != 0;
  flight.data = message->data;
  return Post(handle, message->addr, std::move(flight), flags);
}

ssize_t WriteWithData(fid_ep* handle, const void* buffer, size_t bytes, void*, uint64_t data,
                      fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
  const bool completes = CompletesByDefault(*ObjectOf<Endpoint>(handle));
  Flight flight = MakeWrite(buffer, bytes, address, key, context, completes);
  flight.has_data = true;
  flight.data = data;
  return Post(handle, peer, std::move(flight), 0);
}

ssize_t InjectWrite(fid_ep* handle, const void* buffer, size_t bytes, fi_addr_t peer,
                    uint64_t address, uint64_t key) {
  return Post(handle, peer, MakeWrite(buffer, bytes, address, key, nullptr, false), FI_INJECT);
}

ssize_t InjectWithData(fid_ep* handle, const void* buffer, size_t bytes, uint64_t data,
                       fi_addr_t peer, uint64_t address, uint64_t key) {
  Flight flight = MakeWrite(buffer, bytes, address, key, nullptr, false);
  flight.has_data = true;
  flight.data = data;
  return Post(handle, peer, std::move(flight), FI_INJECT);
}

ssize_t PostReceive(fid_ep* handle, void* buffer, size_t size, void*, fi_addr_t, void* context) {
  ObjectOf<Endpoint>(handle)->receives.push_back({buffer, size, context});
  return 0;
}

ssize_t Send(fid_ep* handle, const void* buffer, size_t bytes, void*, fi_addr_t peer,
             void* context) {
  Flight flight;
  flight.is_send = true;
  flight.source = buffer;
  flight.bytes = bytes;
  flight.context = context;
  flight.flags = FI_MSG | FI_SEND;
  flight.completes = CompletesByDefault(*ObjectOf<Endpoint>(handle));
  return Post(handle, peer, std::move(flight), 0);
}

}  // namespace

fi_ops_rma rma_ops = [] {
  fi_ops_rma table = {};
  table.size = sizeof(table);
  table.write = WriteBytes;
  table.writemsg = WriteMessage;
  table.writedata = WriteWithData;
  table.inject = InjectWrite;
  table.injectdata = InjectWithData;
  contract::StubAll(&table.writev, &table.read, &table.readv, &table.readmsg);
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

}  // namespace invoker::fuzz
