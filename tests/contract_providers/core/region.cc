// Memory regions: registration, keys, and the checks that a remote operation must pass.

#include <rdma/fi_errno.h>

#include "tests/contract_providers/core/objects.h"
#include "tests/contract_providers/core/prng.h"
#include "tests/contract_providers/core/stubs.h"

namespace contract {
namespace {

int CloseRegion(fid* handle) {
  auto* region = ObjectOf<Region>(handle);
  Domain* domain = region->domain;
  {
    std::lock_guard<std::mutex> lock(domain->lock);
    if (domain->contract->posted_receives_hold_region && region->posted_receives > 0) {
      for (Endpoint* endpoint : domain->endpoints) CountBusyRegionLocked(endpoint);
      return -FI_EBUSY;
    }
    domain->regions.erase(region->handle.key);
    domain->descriptors.erase(region);
    --domain->children;
  }
  delete region;
  return 0;
}

// Regions need neither: FI_MR_ENDPOINT is not told, and refreshing tells the provider of pages
// that it never pinned.
int BindRegion(fid*, fid*, uint64_t) { return 0; }
int ControlRegion(fid*, int command, void*) {
  return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

uint64_t NewKey(const Domain& domain) {
  const uint64_t mask = domain.contract->key_bytes >= 8
                            ? ~uint64_t{0}
                            : (uint64_t{1} << (8 * domain.contract->key_bytes)) - 1;
  uint64_t key = 0;
  do {
    key = Entropy() & mask;
  } while (key == 0 || key == FI_KEY_NOTAVAIL || domain.regions.count(key) != 0);
  return key;
}

int Register(fid* handle, const fi_mr_attr& attributes, fid_mr** result) {
  if (handle->fclass != FI_CLASS_DOMAIN) return -FI_EINVAL;
  // EFA_MR_IOV_LIMIT of prov/efa/src/efa.h and mr_iov_limit of gnix_fabric.c are 1.
  if (attributes.iov_count != 1) return -FI_EINVAL;
  auto* domain = ObjectOf<Domain>(handle);
  static fi_ops ops = [] {
    fi_ops table = {};
    table.size = sizeof(table);
    table.close = CloseRegion;
    table.bind = BindRegion;
    table.control = ControlRegion;
    StubAll(&table.ops_open, &table.tostr, &table.ops_set);
    return table;
  }();
  auto region = std::make_unique<Region>();
  *region = {};
  region->domain = domain;
  region->base = static_cast<uint8_t*>(attributes.mr_iov[0].iov_base);
  region->length = attributes.mr_iov[0].iov_len;
  region->access = attributes.access;
  region->readable = (attributes.access & domain->contract->readable_access) != 0;
  if ((domain->mr_mode & FI_MR_VIRT_ADDR) != 0) {
    region->remote_base = reinterpret_cast<uintptr_t>(region->base);
  }
  region->handle.fid.fclass = FI_CLASS_MR;
  region->handle.fid.context = attributes.context;
  region->handle.fid.ops = &ops;
  region->handle.mem_desc = region.get();
  std::lock_guard<std::mutex> lock(domain->lock);
  // With FI_MR_PROV_KEY the key that is asked for is not looked at.
  if ((domain->mr_mode & FI_MR_PROV_KEY) != 0) {
    region->handle.key = NewKey(*domain);
  } else {
    region->handle.key = attributes.requested_key;
    if (domain->regions.count(region->handle.key) != 0) return -FI_ENOKEY;
  }
  domain->regions.emplace(region->handle.key, region.get());
  domain->descriptors.insert(region.get());
  ++domain->children;
  *result = &region.release()->handle;
  return 0;
}

int RegisterAttributes(fid* handle, const fi_mr_attr* attributes, uint64_t, fid_mr** result) {
  return Register(handle, *attributes, result);
}

int RegisterVector(fid* handle, const iovec* iov, size_t count, uint64_t access, uint64_t offset,
                   uint64_t requested_key, uint64_t, fid_mr** result, void* context) {
  fi_mr_attr attributes = {};
  attributes.mr_iov = iov;
  attributes.iov_count = count;
  attributes.access = access;
  attributes.offset = offset;
  attributes.requested_key = requested_key;
  attributes.context = context;
  return Register(handle, attributes, result);
}

int RegisterBuffer(fid* handle, const void* buffer, size_t length, uint64_t access, uint64_t offset,
                   uint64_t requested_key, uint64_t flags, fid_mr** result, void* context) {
  const iovec iov = {const_cast<void*>(buffer), length};
  return RegisterVector(handle, &iov, 1, access, offset, requested_key, flags, result, context);
}

}  // namespace

fi_ops_mr* RegionOps() {
  static fi_ops_mr ops = [] {
    fi_ops_mr table = {};
    table.size = sizeof(table);
    table.reg = RegisterBuffer;
    table.regv = RegisterVector;
    table.regattr = RegisterAttributes;
    return table;
  }();
  return &ops;
}

int Domain::FindLocked(uint64_t key, uint64_t address, uint64_t length, uint64_t access,
                       uint8_t** where) const {
  auto found = regions.find(key);
  if (found == regions.end()) return FI_EACCES;
  const Region& region = *found->second;
  const bool granted =
      access == FI_REMOTE_READ ? region.readable : (region.access & access) == access;
  if (!granted) return FI_EACCES;
  if (address < region.remote_base || length > region.length ||
      address - region.remote_base > region.length - length) {
    return FI_EACCES;
  }
  *where = region.base + (address - region.remote_base);
  return 0;
}

}  // namespace contract
