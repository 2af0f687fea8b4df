// The address vector: indices for endpoint addresses. Which inner address lies behind one is each
// endpoint's own business.

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/contract_providers/core/address.h"
#include "tests/contract_providers/core/endpoint.h"
#include "tests/contract_providers/core/objects.h"
#include "tests/contract_providers/core/stubs.h"

namespace contract {
namespace {

int Insert(fid_av* handle, const void* addresses, size_t count, fi_addr_t* out, uint64_t,
           void* context) {
  auto* av = ObjectOf<AddressVector>(handle);
  const Contract& contract = *av->domain->contract;
  std::lock_guard<std::mutex> lock(av->domain->lock);
  int inserted = 0;
  for (size_t i = 0; i < count; ++i) {
    const char* raw = static_cast<const char*>(addresses) + i * contract.address_bytes;
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    Place place;
    if (DecodeAddress(contract, raw, &place)) {
      const std::string identity = av->IdentityOf(raw);
      if (contract.av_shares_duplicates) address = av->FindLocked(identity);
      if (address == FI_ADDR_NOTAVAIL) {
        address = av->entries.size();
        av->entries.push_back({std::string(raw, contract.address_bytes), true});
        av->by_identity[identity] = address;
      }
      ++inserted;
    }
    if (out != nullptr) out[i] = address;
    (void)context;
  }
  return inserted;
}

int Remove(fid_av* handle, fi_addr_t* addresses, size_t count, uint64_t) {
  auto* av = ObjectOf<AddressVector>(handle);
  std::lock_guard<std::mutex> lock(av->domain->lock);
  for (size_t i = 0; i < count; ++i) {
    if (av->FindLocked(addresses[i]) == nullptr) return -FI_EINVAL;
    AddressVector::Entry& entry = av->entries[addresses[i]];
    entry.live = false;
    const std::string identity = av->IdentityOf(entry.raw.data());
    auto found = av->by_identity.find(identity);
    if (found != av->by_identity.end() && found->second == addresses[i]) {
      av->by_identity.erase(found);
    }
    for (Endpoint* endpoint : av->domain->endpoints) endpoint->ForgetLocked(av, identity);
  }
  return 0;
}

int Lookup(fid_av* handle, fi_addr_t address, void* out, size_t* length) {
  auto* av = ObjectOf<AddressVector>(handle);
  std::lock_guard<std::mutex> lock(av->domain->lock);
  const AddressVector::Entry* entry = av->FindLocked(address);
  if (entry == nullptr) return -FI_EINVAL;
  memcpy(out, entry->raw.data(), std::min(*length, entry->raw.size()));
  *length = entry->raw.size();
  return 0;
}

const char* ToText(fid_av* handle, const void* raw, char* buffer, size_t* length) {
  const Contract& contract = *ObjectOf<AddressVector>(handle)->domain->contract;
  Place place;
  DecodeAddress(contract, raw, &place);
  const int needed = std::snprintf(buffer, *length, "%s://%x:%u:%x", contract.fabric_name,
                                   place.ipv4, place.number, place.nonce);
  *length = static_cast<size_t>(needed) + 1;
  return buffer;
}

int Close(fid* handle) {
  auto* av = ObjectOf<AddressVector>(handle);
  {
    std::lock_guard<std::mutex> lock(av->domain->lock);
    if (av->endpoints > 0) return -FI_EBUSY;
    --av->domain->children;
  }
  delete av;
  return 0;
}

}  // namespace

int OpenAddressVector(fid_domain* handle, fi_av_attr* attributes, fid_av** result, void* context) {
  auto* domain = ObjectOf<Domain>(handle);
  if (attributes->type == FI_AV_MAP) attributes->type = FI_AV_TABLE;
  static fi_ops base_ops = [] {
    fi_ops table = {};
    table.size = sizeof(table);
    table.close = Close;
    StubAll(&table.bind, &table.control, &table.ops_open, &table.tostr, &table.ops_set);
    return table;
  }();
  static fi_ops_av ops = [] {
    fi_ops_av table = {};
    table.size = sizeof(table);
    table.insert = Insert;
    table.remove = Remove;
    table.lookup = Lookup;
    table.straddr = ToText;
    StubAll(&table.insertsvc, &table.insertsym, &table.av_set);
    return table;
  }();
  auto av = std::make_unique<AddressVector>();
  av->domain = domain;
  av->handle = {};
  av->handle.fid.fclass = FI_CLASS_AV;
  av->handle.fid.context = context;
  av->handle.fid.ops = &base_ops;
  av->handle.ops = &ops;
  {
    std::lock_guard<std::mutex> lock(domain->lock);
    ++domain->children;
  }
  *result = &av.release()->handle;
  return 0;
}

}  // namespace contract
