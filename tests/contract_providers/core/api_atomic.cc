// libfabric's table for atomics: one contiguous buffer per operation; the vectored forms take one
// element.

#include <rdma/fi_errno.h>

#include "tests/contract_providers/core/endpoint.h"

namespace contract {
namespace {

struct AtomicCall {
  AtomicKind kind = AtomicKind::kWrite;
  fi_msg_atomic message = {};
  const void* comparand = nullptr;
  void* result = nullptr;
  uint64_t flags = 0;
  bool silent = false;
};

ssize_t Post(fid_ep* handle, const AtomicCall& atomic) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  const Contract& contract = endpoint->contract();
  const fi_msg_atomic& message = atomic.message;
  if (message.iov_count != 1 || message.rma_iov_count != 1) return -FI_EINVAL;
  const size_t most = contract.atomic_count(atomic.kind, message.datatype, message.op);
  if (most == 0) return -FI_EOPNOTSUPP;
  const uint64_t count = message.rma_iov[0].count;
  if (count == 0 || count > most) return -FI_EINVAL;
  const size_t size = AtomicSize(message.datatype);
  if (contract.atomics_need_alignment && message.rma_iov[0].addr % size != 0) return -FI_EINVAL;
  const bool has_operand = message.op != FI_ATOMIC_READ;
  if (has_operand && message.msg_iov[0].count != count) return -FI_EINVAL;
  const iovec iov = {has_operand ? message.msg_iov[0].addr : nullptr,
                     has_operand ? count * size : 0};
  Call call;
  call.kind = PacketKind::kAtomic;
  call.iov = &iov;
  call.descriptors = message.desc;
  call.iov_count = 1;
  call.peer = message.addr;
  call.address = message.rma_iov[0].addr;
  call.key = message.rma_iov[0].key;
  call.data = count * size;
  call.context = message.context;
  // Nothing else of the flags means anything to an atomic here; it is always answered after it
  // was done.
  call.flags = atomic.flags & (FI_COMPLETION | FI_INJECT | FI_FENCE);
  call.silent = atomic.silent;
  call.atomic_kind = atomic.kind;
  call.datatype = message.datatype;
  call.atomic_op = message.op;
  call.atomic_count = count;
  call.comparand = atomic.comparand;
  call.result = atomic.result;
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->PostLocked(call);
}

// The forms that take one buffer, all in one.
ssize_t PostBuffer(fid_ep* handle, AtomicKind kind, const void* buffer, size_t count,
                   void* descriptor, const void* comparand, void* result, fi_addr_t peer,
                   uint64_t address, uint64_t key, enum fi_datatype datatype, enum fi_op op,
                   void* context, bool silent = false) {
  const fi_ioc local = {const_cast<void*>(buffer), count};
  const fi_rma_ioc remote = {address, count, key};
  AtomicCall atomic;
  atomic.kind = kind;
  atomic.message.msg_iov = &local;
  atomic.message.desc = &descriptor;
  atomic.message.iov_count = 1;
  atomic.message.addr = peer;
  atomic.message.rma_iov = &remote;
  atomic.message.rma_iov_count = 1;
  atomic.message.datatype = datatype;
  atomic.message.op = op;
  atomic.message.context = context;
  atomic.comparand = comparand;
  atomic.result = result;
  atomic.flags = ObjectOf<Endpoint>(handle)->tx_flags();
  atomic.silent = silent;
  return Post(handle, atomic);
}

ssize_t Write(fid_ep* handle, const void* buffer, size_t count, void* descriptor, fi_addr_t to,
              uint64_t address, uint64_t key, enum fi_datatype datatype, enum fi_op op,
              void* context) {
  return PostBuffer(handle, AtomicKind::kWrite, buffer, count, descriptor, nullptr, nullptr, to,
                    address, key, datatype, op, context);
}

ssize_t WriteVector(fid_ep* handle, const fi_ioc* iov, void** descriptors, size_t count,
                    fi_addr_t to, uint64_t address, uint64_t key, enum fi_datatype datatype,
                    enum fi_op op, void* context) {
  if (count != 1) return -FI_EINVAL;
  return Write(handle, iov[0].addr, iov[0].count, descriptors ? descriptors[0] : nullptr, to,
               address, key, datatype, op, context);
}

ssize_t WriteMessage(fid_ep* handle, const fi_msg_atomic* message, uint64_t flags) {
  AtomicCall atomic;
  atomic.message = *message;
  atomic.flags = flags;
  return Post(handle, atomic);
}

ssize_t Inject(fid_ep* handle, const void* buffer, size_t count, fi_addr_t to, uint64_t address,
               uint64_t key, enum fi_datatype datatype, enum fi_op op) {
  return PostBuffer(handle, AtomicKind::kWrite, buffer, count, nullptr, nullptr, nullptr, to,
                    address, key, datatype, op, nullptr, true);
}

ssize_t Fetch(fid_ep* handle, const void* buffer, size_t count, void* descriptor, void* result,
              void*, fi_addr_t to, uint64_t address, uint64_t key, enum fi_datatype datatype,
              enum fi_op op, void* context) {
  return PostBuffer(handle, AtomicKind::kFetch, buffer, count, descriptor, nullptr, result, to,
                    address, key, datatype, op, context);
}

ssize_t FetchVector(fid_ep* handle, const fi_ioc* iov, void** descriptors, size_t count,
                    fi_ioc* results, void** result_descriptors, size_t result_count, fi_addr_t to,
                    uint64_t address, uint64_t key, enum fi_datatype datatype, enum fi_op op,
                    void* context) {
  if (count != 1 || result_count != 1) return -FI_EINVAL;
  (void)result_descriptors;
  return Fetch(handle, iov[0].addr, results[0].count, descriptors ? descriptors[0] : nullptr,
               results[0].addr, nullptr, to, address, key, datatype, op, context);
}

ssize_t FetchMessage(fid_ep* handle, const fi_msg_atomic* message, fi_ioc* results, void**,
                     size_t result_count, uint64_t flags) {
  if (result_count != 1) return -FI_EINVAL;
  AtomicCall atomic;
  atomic.kind = AtomicKind::kFetch;
  atomic.message = *message;
  atomic.result = results[0].addr;
  atomic.flags = flags;
  return Post(handle, atomic);
}

ssize_t Compare(fid_ep* handle, const void* buffer, size_t count, void* descriptor,
                const void* comparand, void*, void* result, void*, fi_addr_t to, uint64_t address,
                uint64_t key, enum fi_datatype datatype, enum fi_op op, void* context) {
  return PostBuffer(handle, AtomicKind::kCompare, buffer, count, descriptor, comparand, result, to,
                    address, key, datatype, op, context);
}

ssize_t CompareVector(fid_ep* handle, const fi_ioc* iov, void** descriptors, size_t count,
                      const fi_ioc* comparands, void**, size_t comparand_count, fi_ioc* results,
                      void**, size_t result_count, fi_addr_t to, uint64_t address, uint64_t key,
                      enum fi_datatype datatype, enum fi_op op, void* context) {
  if (count != 1 || comparand_count != 1 || result_count != 1) return -FI_EINVAL;
  return Compare(handle, iov[0].addr, iov[0].count, descriptors ? descriptors[0] : nullptr,
                 comparands[0].addr, nullptr, results[0].addr, nullptr, to, address, key, datatype,
                 op, context);
}

ssize_t CompareMessage(fid_ep* handle, const fi_msg_atomic* message, const fi_ioc* comparands,
                       void**, size_t comparand_count, fi_ioc* results, void**, size_t result_count,
                       uint64_t flags) {
  if (comparand_count != 1 || result_count != 1) return -FI_EINVAL;
  AtomicCall atomic;
  atomic.kind = AtomicKind::kCompare;
  atomic.message = *message;
  atomic.comparand = comparands[0].addr;
  atomic.result = results[0].addr;
  atomic.flags = flags;
  return Post(handle, atomic);
}

int Valid(fid_ep* handle, AtomicKind kind, enum fi_datatype datatype, enum fi_op op,
          size_t* count) {
  const size_t most = ObjectOf<Endpoint>(handle)->contract().atomic_count(kind, datatype, op);
  if (most == 0) return -FI_EOPNOTSUPP;
  if (count != nullptr) *count = most;
  return 0;
}

int WriteValid(fid_ep* handle, enum fi_datatype datatype, enum fi_op op, size_t* count) {
  return Valid(handle, AtomicKind::kWrite, datatype, op, count);
}

int FetchValid(fid_ep* handle, enum fi_datatype datatype, enum fi_op op, size_t* count) {
  return Valid(handle, AtomicKind::kFetch, datatype, op, count);
}

int CompareValid(fid_ep* handle, enum fi_datatype datatype, enum fi_op op, size_t* count) {
  return Valid(handle, AtomicKind::kCompare, datatype, op, count);
}

}  // namespace

fi_ops_atomic* AtomicOps() {
  static fi_ops_atomic ops = [] {
    fi_ops_atomic table = {};
    table.size = sizeof(table);
    table.write = Write;
    table.writev = WriteVector;
    table.writemsg = WriteMessage;
    table.inject = Inject;
    table.readwrite = Fetch;
    table.readwritev = FetchVector;
    table.readwritemsg = FetchMessage;
    table.compwrite = Compare;
    table.compwritev = CompareVector;
    table.compwritemsg = CompareMessage;
    table.writevalid = WriteValid;
    table.readwritevalid = FetchValid;
    table.compwritevalid = CompareValid;
    return table;
  }();
  return &ops;
}

}  // namespace contract
