// An event queue without events: nothing here connects, and insertions into an address vector are
// over when the call returns. Programs that open one in any case (fi_pingpong) can.

#include <rdma/fi_errno.h>

#include "tests/contract_providers/core/objects.h"
#include "tests/contract_providers/core/stubs.h"

namespace contract {
namespace {

struct EventQueue {
  fid_eq handle;
  Fabric* fabric;
};

int Close(fid* handle) {
  auto* queue = ObjectOf<EventQueue>(handle);
  {
    std::lock_guard<std::mutex> lock(queue->fabric->lock);
    --queue->fabric->children;
  }
  delete queue;
  return 0;
}

ssize_t Read(fid_eq*, uint32_t*, void*, size_t, uint64_t) { return -FI_EAGAIN; }
ssize_t ReadError(fid_eq*, fi_eq_err_entry*, uint64_t) { return -FI_EAGAIN; }

}  // namespace

int OpenEventQueue(fid_fabric* handle, fi_eq_attr*, fid_eq** result, void* context) {
  auto* fabric = ObjectOf<Fabric>(handle);
  static fi_ops base_ops = [] {
    fi_ops table = {};
    table.size = sizeof(table);
    table.close = Close;
    StubAll(&table.bind, &table.control, &table.ops_open, &table.tostr, &table.ops_set);
    return table;
  }();
  static fi_ops_eq ops = [] {
    fi_ops_eq table = {};
    table.size = sizeof(table);
    table.read = Read;
    table.readerr = ReadError;
    StubAll(&table.write, &table.sread, &table.strerror);
    return table;
  }();
  auto queue = std::make_unique<EventQueue>();
  queue->fabric = fabric;
  queue->handle = {};
  queue->handle.fid.fclass = FI_CLASS_EQ;
  queue->handle.fid.context = context;
  queue->handle.fid.ops = &base_ops;
  queue->handle.ops = &ops;
  std::lock_guard<std::mutex> lock(fabric->lock);
  ++fabric->children;
  *result = &queue.release()->handle;
  return 0;
}

}  // namespace contract
