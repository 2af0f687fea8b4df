// fi_fabric, in front of libfabric's, and what is opened through it.
//
// fi_getinfo is libfabric's own; whatever is then opened is of this library.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/contract_providers/core/stubs.h"
#include "tests/fuzz/fabric/network.h"
#include "tests/fuzz/fabric/objects.h"

namespace invoker::fuzz {
namespace {

using contract::StubAll;

// By number; nullptr where one has been closed.
std::vector<Endpoint*> endpoints;

template <typename Object>
int Delete(fid* handle) {
  delete ObjectOf<Object>(handle);
  return 0;
}

// The table that every object has, with its own way to end.
template <typename Object>
fi_ops BaseOps(int (*close)(fid*) = Delete<Object>) {
  fi_ops table = {};
  table.size = sizeof(table);
  table.close = close;
  StubAll(&table.bind, &table.control, &table.ops_open, &table.tostr, &table.ops_set);
  return table;
}

void Init(fid* handle, size_t fclass, void* context, fi_ops* ops) {
  handle->fclass = fclass;
  handle->context = context;
  handle->ops = ops;
}

// The endpoint's number is the port of an IPv4 address.
std::string AddressOf(const Endpoint& endpoint) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(endpoint.number + 1));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return std::string(reinterpret_cast<const char*>(&address), sizeof(address));
}

int InsertAddresses(fid_av* handle, const void* address, size_t count, fi_addr_t* result, uint64_t,
                    void*) {
  if (count != 1) return -FI_EINVAL;
  const uint32_t number = ntohs(static_cast<const sockaddr_in*>(address)->sin_port) - 1;
  if (number >= endpoints.size()) return 0;
  auto* addresses = ObjectOf<AddressVector>(handle);
  *result = addresses->endpoints.size();
  addresses->endpoints.push_back(number);
  return 1;
}

int RemoveAddresses(fid_av*, fi_addr_t*, size_t, uint64_t) { return 0; }

int OpenAddressVector(fid_domain*, fi_av_attr*, fid_av** result, void* context) {
  static fi_ops base = BaseOps<AddressVector>();
  static fi_ops_av ops = [] {
    fi_ops_av table = {};
    table.size = sizeof(table);
    table.insert = InsertAddresses;
    table.remove = RemoveAddresses;
    StubAll(&table.insertsvc, &table.insertsym, &table.lookup, &table.straddr, &table.av_set);
    return table;
  }();
  auto* addresses = new AddressVector;
  Init(&addresses->handle.fid, FI_CLASS_AV, context, &base);
  addresses->handle.ops = &ops;
  *result = &addresses->handle;
  return 0;
}

ssize_t ReadQueue(fid_cq* handle, void* buffer, size_t count) {
  auto* queue = ObjectOf<Queue>(handle);
  if (!queue->errors.empty()) return -FI_EAVAIL;
  if (queue->entries.empty()) return -FI_EAGAIN;
  count = std::min(count, queue->entries.size());
  std::copy_n(queue->entries.begin(), count, static_cast<fi_cq_data_entry*>(buffer));
  queue->entries.erase(queue->entries.begin(), queue->entries.begin() + count);
  return static_cast<ssize_t>(count);
}

ssize_t ReadQueueFrom(fid_cq* handle, void* buffer, size_t count, fi_addr_t* sources) {
  const ssize_t read = ReadQueue(handle, buffer, count);
  for (ssize_t i = 0; i < read; ++i) sources[i] = FI_ADDR_NOTAVAIL;
  return read;
}

ssize_t ReadQueueError(fid_cq* handle, fi_cq_err_entry* entry, uint64_t) {
  auto* queue = ObjectOf<Queue>(handle);
  if (queue->errors.empty()) return -FI_EAGAIN;
  *entry = queue->errors.front();
  queue->errors.pop_front();
  return 1;
}

int OpenQueue(fid_domain*, fi_cq_attr* attributes, fid_cq** result, void* context) {
  static fi_ops base = BaseOps<Queue>();
  static fi_ops_cq ops = [] {
    fi_ops_cq table = {};
    table.size = sizeof(table);
    table.read = ReadQueue;
    table.readfrom = ReadQueueFrom;
    table.readerr = ReadQueueError;
    StubAll(&table.sread, &table.sreadfrom, &table.signal, &table.strerror);
    return table;
  }();
  if (attributes->format != FI_CQ_FORMAT_DATA || attributes->wait_obj != FI_WAIT_NONE) {
    return -FI_ENOSYS;
  }
  auto* queue = new Queue;
  Init(&queue->handle.fid, FI_CLASS_CQ, context, &base);
  queue->handle.ops = &ops;
  *result = &queue->handle;
  return 0;
}

int CloseRegion(fid* handle) {
  auto* region = ObjectOf<Region>(handle);
  std::vector<Region*>& all = region->domain->regions;
  all.erase(std::find(all.begin(), all.end(), region));
  delete region;
  return 0;
}

int Register(fid* handle, const void* data, size_t size, uint64_t access, uint64_t,
             uint64_t requested_key, uint64_t, fid_mr** result, void* context) {
  static fi_ops base = BaseOps<Region>(CloseRegion);
  auto* domain = ObjectOf<Domain>(handle);
  const bool own_key = (domain->mr_mode & FI_MR_PROV_KEY) != 0;
  const uint64_t key = own_key ? domain->next_key++ : requested_key;
  for (const Region* other : domain->regions) {
    if (other->handle.key == key) return -FI_ENOKEY;
  }
  auto* region = new Region;
  Init(&region->handle.fid, FI_CLASS_MR, context, &base);
  region->handle.mem_desc = region;
  region->handle.key = key;
  region->domain = domain;
  region->data = static_cast<std::byte*>(const_cast<void*>(data));
  region->size = size;
  region->access = access;
  domain->regions.push_back(region);
  *result = &region->handle;
  return 0;
}

int CloseEndpoint(fid* handle) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  Network::Get().Forget(endpoint);
  endpoints[endpoint->number] = nullptr;
  while (!endpoints.empty() && endpoints.back() == nullptr) endpoints.pop_back();
  delete endpoint;
  return 0;
}

int BindEndpoint(fid* handle, fid* other, uint64_t flags) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  if (other->fclass == FI_CLASS_AV) {
    endpoint->addresses = ObjectOf<AddressVector>(other);
  } else if (other->fclass == FI_CLASS_CQ) {
    endpoint->queue = ObjectOf<Queue>(other);
    if ((flags & FI_TRANSMIT) != 0) endpoint->selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  } else {
    return -FI_EINVAL;
  }
  return 0;
}

int ControlEndpoint(fid*, int command, void*) { return command == FI_ENABLE ? 0 : -FI_ENOSYS; }

int GetName(fid* handle, void* buffer, size_t* length) {
  const std::string address = AddressOf(*ObjectOf<Endpoint>(handle));
  const size_t room = *length;
  *length = address.size();
  if (buffer != nullptr) memcpy(buffer, address.data(), std::min(room, address.size()));
  return room < address.size() ? -FI_ETOOSMALL : 0;
}

int OpenEndpoint(fid_domain* handle, fi_info* info, fid_ep** result, void* context) {
  static fi_ops base = [] {
    fi_ops table = BaseOps<Endpoint>(CloseEndpoint);
    table.bind = BindEndpoint;
    table.control = ControlEndpoint;
    return table;
  }();
  static fi_ops_ep ops = [] {
    fi_ops_ep table = {};
    table.size = sizeof(table);
    StubAll(&table.cancel, &table.getopt, &table.setopt, &table.tx_ctx, &table.rx_ctx,
            &table.rx_size_left, &table.tx_size_left);
    return table;
  }();
  static fi_ops_cm cm = [] {
    fi_ops_cm table = {};
    table.size = sizeof(table);
    table.getname = GetName;
    StubAll(&table.setname, &table.getpeer, &table.connect, &table.listen, &table.accept,
            &table.reject, &table.shutdown, &table.join);
    return table;
  }();
  auto* endpoint = new Endpoint;
  Init(&endpoint->handle.fid, FI_CLASS_EP, context, &base);
  endpoint->handle.ops = &ops;
  endpoint->handle.cm = &cm;
  endpoint->handle.msg = &msg_ops;
  endpoint->handle.rma = &rma_ops;
  endpoint->domain = ObjectOf<Domain>(handle);
  endpoint->completes_unasked = (info->tx_attr->op_flags & FI_COMPLETION) != 0;
  endpoint->number = static_cast<uint32_t>(endpoints.size());
  endpoints.push_back(endpoint);
  *result = &endpoint->handle;
  return 0;
}

int OpenDomain(fid_fabric*, fi_info* info, fid_domain** result, void* context) {
  static fi_ops base = BaseOps<Domain>();
  static fi_ops_domain ops = [] {
    fi_ops_domain table = {};
    table.size = sizeof(table);
    table.av_open = OpenAddressVector;
    table.cq_open = OpenQueue;
    table.endpoint = OpenEndpoint;
    StubAll(&table.scalable_ep, &table.cntr_open, &table.poll_open, &table.stx_ctx, &table.srx_ctx,
            &table.query_atomic, &table.query_collective);
    return table;
  }();
  static fi_ops_mr regions = [] {
    fi_ops_mr table = {};
    table.size = sizeof(table);
    table.reg = Register;
    StubAll(&table.regv, &table.regattr);
    return table;
  }();
  auto* domain = new Domain;
  Init(&domain->handle.fid, FI_CLASS_DOMAIN, context, &base);
  domain->handle.ops = &ops;
  domain->handle.mr = &regions;
  domain->mr_mode = info->domain_attr->mr_mode;
  *result = &domain->handle;
  return 0;
}

int TryWait(fid_fabric*, fid**, int) { return FI_SUCCESS; }

}  // namespace

Endpoint* FindEndpoint(uint32_t number) {
  return number < endpoints.size() ? endpoints[number] : nullptr;
}

}  // namespace invoker::fuzz

extern "C" int fi_fabric(fi_fabric_attr*, fid_fabric** result, void* context) {
  using namespace invoker::fuzz;
  static fi_ops base = BaseOps<Fabric>();
  static fi_ops_fabric ops = [] {
    fi_ops_fabric table = {};
    table.size = sizeof(table);
    table.domain = OpenDomain;
    table.trywait = TryWait;
    StubAll(&table.passive_ep, &table.eq_open, &table.wait_open);
    return table;
  }();
  auto* fabric = new Fabric;
  Init(&fabric->handle.fid, FI_CLASS_FABRIC, context, &base);
  fabric->handle.ops = &ops;
  fabric->handle.api_version = FI_VERSION(1, 17);
  *result = &fabric->handle;
  return 0;
}
