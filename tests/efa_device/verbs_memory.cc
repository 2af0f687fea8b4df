// Memory registration and address handles.

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tests/efa_device/verbs_objects.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using efa_device::AddressHandle;
using efa_device::Card;
using efa_device::CardOf;
using efa_device::From;
using efa_device::MemoryRegion;

namespace {

ibv_mr* Register(ibv_pd* domain, void* address, size_t length, unsigned int access) {
  Card& card = CardOf(domain->context);
  unsigned int allowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_OPTIONAL_RANGE;
  if (card.attributes().has(efa_device::kCapRdmaRead)) allowed |= IBV_ACCESS_REMOTE_READ;
  if (card.attributes().has(efa_device::kCapRdmaWrite)) allowed |= IBV_ACCESS_REMOTE_WRITE;
  if ((access & ~allowed) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  std::lock_guard<std::mutex> guard(card.lock());
  if (card.memory().size() >= card.attributes().max_memory_regions) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* region = new MemoryRegion();
  region->verbs.context = domain->context;
  region->verbs.pd = domain;
  region->verbs.addr = address;
  region->verbs.length = length;
  region->verbs.lkey = card.memory().Add(domain, reinterpret_cast<uint64_t>(address), length,
                                         static_cast<int>(access));
  region->verbs.rkey = region->verbs.lkey;
  region->verbs.handle = region->verbs.lkey;
  ++From(domain)->users;
  return &region->verbs;
}

}  // namespace

EFA_DEVICE_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t length, int access) {
  return Register(domain, address, length, static_cast<unsigned int>(access));
}

// The card knows memory by its own addresses only.
EFA_DEVICE_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t length,
                                           uint64_t iova, unsigned int access) {
  if (iova != reinterpret_cast<uint64_t>(address)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return Register(domain, address, length, access);
}

EFA_DEVICE_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, size_t length,
                                          uint64_t iova, int access) {
  return ibv_reg_mr_iova2(domain, address, length, iova, static_cast<unsigned int>(access));
}

EFA_DEVICE_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

EFA_DEVICE_EXPORT int ibv_dereg_mr(ibv_mr* region) {
  Card& card = CardOf(region->context);
  std::lock_guard<std::mutex> guard(card.lock());
  if (!card.memory().Remove(region->lkey)) return EINVAL;
  --From(region->pd)->users;
  delete reinterpret_cast<MemoryRegion*>(region);
  return 0;
}

// rdma-core 48 and later: through which interconnects the card reaches the memory. It cannot tell.
extern "C" struct efadv_mr_attr;
EFA_DEVICE_EXPORT int efadv_query_mr(ibv_mr*, efadv_mr_attr* attributes, uint32_t size) {
  memset(static_cast<void*>(attributes), 0, size);
  return 0;
}

EFA_DEVICE_EXPORT ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  if (attributes->port_num != 1 || attributes->is_global == 0) {
    errno = EINVAL;
    return nullptr;
  }
  Card& card = CardOf(domain->context);
  auto handle = std::make_unique<AddressHandle>();
  memcpy(handle->gid.data(), attributes->grh.dgid.raw, handle->gid.size());
  handle->verbs.context = domain->context;
  handle->verbs.pd = domain;
  std::lock_guard<std::mutex> guard(card.lock());
  if (card.faults().Strikes(efa_device::Fault::kAddressHandle) ||
      !card.handles().Acquire(handle->gid, &handle->number)) {
    errno = ENOMEM;
    return nullptr;
  }
  handle->verbs.handle = handle->number;
  ++From(domain)->users;
  return &handle.release()->verbs;
}

EFA_DEVICE_EXPORT int ibv_destroy_ah(ibv_ah* verbs) {
  AddressHandle* handle = From(verbs);
  Card& card = CardOf(verbs->context);
  std::lock_guard<std::mutex> guard(card.lock());
  card.handles().Release(handle->gid);
  --From(verbs->pd)->users;
  delete handle;
  return 0;
}

EFA_DEVICE_EXPORT int efadv_query_ah(ibv_ah* verbs, efadv_ah_attr* attributes, uint32_t size) {
  if (size < sizeof(*attributes)) return EINVAL;
  memset(static_cast<void*>(attributes), 0, size);
  attributes->ahn = From(verbs)->number;
  return 0;
}
