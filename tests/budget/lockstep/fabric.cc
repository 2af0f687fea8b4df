// fi_fabric, in front of libfabric's, and what is opened through it.
//
// fi_getinfo is libfabric's own, so the program under test sees the provider that it asked for,
// with its attributes; but whatever it then opens is of this library, and works within this process
// only.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "tests/budget/lockstep/objects.h"
#include "tests/contract_providers/core/stubs.h"

namespace invoker::lockstep {
namespace {

using contract::StubAll;

constexpr char kScheme[] = "lockstep://";

// By number; nullptr where one has been closed. Under the lock.
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

// The endpoint's number stands in an address of the provider's own format.
std::string AddressOf(const Endpoint& endpoint) {
  const uint16_t port = htons(static_cast<uint16_t>(endpoint.number + 1));
  if (endpoint.address_format == FI_SOCKADDR_IN6) {
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_port = port;
    address.sin6_addr = in6addr_loopback;
    return std::string(reinterpret_cast<const char*>(&address), sizeof(address));
  }
  if (endpoint.address_format == FI_ADDR_STR) {
    const std::string text = kScheme + std::to_string(endpoint.number + 1);
    return std::string(text.c_str(), text.size() + 1);
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = port;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return std::string(reinterpret_cast<const char*>(&address), sizeof(address));
}

uint32_t NumberIn(const void* address) {
  sa_family_t family;
  memcpy(&family, address, sizeof(family));
  if (family == AF_INET) return ntohs(static_cast<const sockaddr_in*>(address)->sin_port) - 1;
  if (family == AF_INET6) return ntohs(static_cast<const sockaddr_in6*>(address)->sin6_port) - 1;
  const char* text = static_cast<const char*>(address);
  if (strncmp(text, kScheme, strlen(kScheme)) != 0) return UINT32_MAX;
  text += strlen(kScheme);
  // An alias, as of the name of a shared memory object (ProfileRow::alias_own_process).
  if (*text == '/') ++text;
  return static_cast<uint32_t>(strtoul(text, nullptr, 10)) - 1;
}

int InsertAddresses(fid_av* handle, const void* address, size_t count, fi_addr_t* result, uint64_t,
                    void*) {
  // Addresses of one format are not all as long, so one at a time.
  if (count != 1) return -FI_EINVAL;
  std::lock_guard<StepLock> guard(Lock());
  const uint32_t number = NumberIn(address);
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

// The handle's context is not the user's.
Queue* QueueOf(fid_cq* handle) { return static_cast<Queue*>(handle->fid.context); }

ssize_t ReadQueue(fid_cq* handle, void* buffer, size_t count) {
  return QueueOf(handle)->Read(static_cast<fi_cq_data_entry*>(buffer), count);
}

ssize_t ReadQueueFrom(fid_cq* handle, void* buffer, size_t count, fi_addr_t* sources) {
  const ssize_t read = ReadQueue(handle, buffer, count);
  for (ssize_t i = 0; i < read; ++i) sources[i] = FI_ADDR_NOTAVAIL;
  return read;
}

ssize_t ReadQueueError(fid_cq*, fi_cq_err_entry*, uint64_t) { return -FI_EAGAIN; }

int ControlQueue(fid* handle, int command, void* argument) {
  Queue* queue = QueueOf(reinterpret_cast<fid_cq*>(handle));
  if (command != FI_GETWAIT || queue->wait_fd < 0) return -FI_ENOSYS;
  *static_cast<int*>(argument) = queue->wait_fd;
  return 0;
}

int CloseQueue(fid* handle) {
  delete QueueOf(reinterpret_cast<fid_cq*>(handle));
  return 0;
}

int OpenQueue(fid_domain*, fi_cq_attr* attributes, fid_cq** result, void*) {
  static fi_ops base = [] {
    fi_ops table = BaseOps<Queue>(CloseQueue);
    table.control = ControlQueue;
    return table;
  }();
  static fi_ops_cq ops = [] {
    fi_ops_cq table = {};
    table.size = sizeof(table);
    table.read = ReadQueue;
    table.readfrom = ReadQueueFrom;
    table.readerr = ReadQueueError;
    StubAll(&table.sread, &table.sreadfrom, &table.signal, &table.strerror);
    return table;
  }();
  if (attributes->format != FI_CQ_FORMAT_DATA) return -FI_ENOSYS;
  if (attributes->wait_obj != FI_WAIT_NONE && attributes->wait_obj != FI_WAIT_FD) {
    return -FI_ENOSYS;
  }
  auto* queue = new Queue;
  if (attributes->wait_obj == FI_WAIT_FD) {
    // Readable at all times: nobody sleeps for long.
    queue->wait_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
  }
  Init(&queue->handle.fid, FI_CLASS_CQ, queue, &base);
  queue->handle.ops = &ops;
  *result = &queue->handle;
  return 0;
}

int CloseRegion(fid* handle) {
  auto* region = ObjectOf<Region>(handle);
  std::lock_guard<StepLock> guard(Lock());
  std::vector<Region*>& all = region->domain->regions;
  all.erase(std::find(all.begin(), all.end(), region));
  delete region;
  return 0;
}

int Register(fid* handle, const void* data, size_t size, uint64_t access, uint64_t,
             uint64_t requested_key, uint64_t, fid_mr** result, void* context) {
  static fi_ops base = BaseOps<Region>(CloseRegion);
  auto* domain = ObjectOf<Domain>(handle);
  std::lock_guard<StepLock> guard(Lock());
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
  std::lock_guard<StepLock> guard(Lock());
  endpoints[endpoint->number] = nullptr;
  delete endpoint;
  return 0;
}

int BindEndpoint(fid* handle, fid* other, uint64_t flags) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  if (other->fclass == FI_CLASS_AV) {
    endpoint->addresses = ObjectOf<AddressVector>(other);
  } else if (other->fclass == FI_CLASS_CQ) {
    endpoint->queue = QueueOf(reinterpret_cast<fid_cq*>(other));
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

// Endpoints go by their numbers here, and have no files that a name could be of.
int SetName(fid*, void*, size_t) { return 0; }

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
    table.setname = SetName;
    StubAll(&table.getpeer, &table.connect, &table.listen, &table.accept, &table.reject,
            &table.shutdown, &table.join);
    return table;
  }();
  auto* endpoint = new Endpoint;
  Init(&endpoint->handle.fid, FI_CLASS_EP, context, &base);
  endpoint->handle.ops = &ops;
  endpoint->handle.cm = &cm;
  endpoint->handle.msg = &msg_ops;
  endpoint->handle.rma = &rma_ops;
  endpoint->domain = ObjectOf<Domain>(handle);
  endpoint->address_format = info->addr_format;
  endpoint->completes_unasked = (info->tx_attr->op_flags & FI_COMPLETION) != 0;
  endpoint->inject_bytes = info->tx_attr->inject_size;
  std::lock_guard<StepLock> guard(Lock());
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

struct FabricObject {
  fid_fabric handle = {};
};

}  // namespace

Endpoint* FindEndpoint(uint32_t number) {
  return number < endpoints.size() ? endpoints[number] : nullptr;
}

}  // namespace invoker::lockstep

extern "C" int fi_fabric(fi_fabric_attr*, fid_fabric** result, void* context) {
  using namespace invoker::lockstep;
  static fi_ops base = BaseOps<FabricObject>();
  static fi_ops_fabric ops = [] {
    fi_ops_fabric table = {};
    table.size = sizeof(table);
    table.domain = OpenDomain;
    table.trywait = TryWait;
    StubAll(&table.passive_ep, &table.eq_open, &table.wait_open);
    return table;
  }();
  auto* fabric = new FabricObject;
  Init(&fabric->handle.fid, FI_CLASS_FABRIC, context, &base);
  fabric->handle.ops = &ops;
  fabric->handle.api_version = FI_VERSION(1, 17);
  *result = &fabric->handle;
  return 0;
}
