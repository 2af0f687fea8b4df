// The libfabric objects other than endpoints: fabric, domain, region, address vector, completion
// queue.
//
// Each begins with its fid, so that the address of one is the address of the other. One lock per
// domain guards everything that was opened on it; functions named ...Locked want it held. Parents
// outlive their children: closing a parent that has any fails with -FI_EBUSY.

#ifndef INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_OBJECTS_H_
#define INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_OBJECTS_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/contract_providers/core/config.h"
#include "tests/contract_providers/core/contract.h"
#include "tests/contract_providers/core/inner.h"

namespace contract {

class Endpoint;

template <typename Object, typename AnyFid>
Object* ObjectOf(AnyFid* handle) {
  return reinterpret_cast<Object*>(handle);
}

struct Fabric {
  fid_fabric handle;
  const Contract* contract;
  Config config;
  int children = 0;  // guarded by `lock`
  std::mutex lock;
};

struct Region {
  fid_mr handle;
  struct Domain* domain;
  uint8_t* base;
  uint64_t length;
  uint64_t remote_base;
  uint64_t access;
  bool readable;
  size_t posted_receives;
};

struct Domain {
  fid_domain handle;
  Fabric* fabric;
  const Contract* contract;
  const Config* config;
  int mr_mode;
  std::unique_ptr<InnerDomain> inner;

  std::mutex lock;
  std::condition_variable changed;
  int children = 0;
  std::unordered_map<uint64_t, Region*> regions;  // by key
  std::unordered_set<const Region*> descriptors;
  std::vector<Endpoint*> endpoints;

  // Makes progress where the contract does not leave it to the caller.
  std::thread helper;
  bool stop_helper = false;

  void StartHelperLocked();
  // Whether `length` bytes at the remote address lie in the region of that key, which grants
  // `access`. 0 and where they are, or a positive fi_errno. FI_REMOTE_READ alone stands for a read.
  int FindLocked(uint64_t key, uint64_t address, uint64_t length, uint64_t access,
                 uint8_t** where) const;
};

struct AddressVector {
  fid_av handle;
  Domain* domain;
  struct Entry {
    std::string raw;
    bool live;
  };
  // The fi_addr_t is the index. Removed ones are not used again.
  std::vector<Entry> entries;
  std::unordered_map<std::string, fi_addr_t> by_identity;
  int endpoints = 0;

  std::string IdentityOf(const void* raw) const {
    return std::string(static_cast<const char*>(raw), domain->contract->identity_bytes);
  }
  const Entry* FindLocked(fi_addr_t address) const {
    return address < entries.size() && entries[address].live ? &entries[address] : nullptr;
  }
  fi_addr_t FindLocked(const std::string& identity) const {
    auto found = by_identity.find(identity);
    return found == by_identity.end() ? FI_ADDR_NOTAVAIL : found->second;
  }
};

// One entry in waiting, whatever the queue's format.
struct Completion {
  void* context = nullptr;
  uint64_t flags = 0;
  size_t length = 0;
  void* buffer = nullptr;
  uint64_t data = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int error = 0;  // positive fi_errno
  size_t missing = 0;
};

struct CompletionQueue {
  fid_cq handle;
  Domain* domain;
  enum fi_cq_format format;
  enum fi_wait_obj wait;
  int event_fd = -1;
  bool signaled = false;
  std::deque<Completion> entries;
  std::vector<Endpoint*> endpoints;

  void PushLocked(const Completion& completion);
};

// The entry points that fi_fabric and fi_domain reach. 0 or a negative fi_errno, as libfabric's.
int OpenFabric(const ProviderDescription& provider, fi_fabric_attr* attributes, fid_fabric** result,
               void* context);
int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** result, void* context);
int OpenEventQueue(fid_fabric* fabric, fi_eq_attr* attributes, fid_eq** result, void* context);
int OpenAddressVector(fid_domain* domain, fi_av_attr* attributes, fid_av** result, void* context);
int OpenCompletionQueue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** result, void* context);
int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** result, void* context);
fi_ops_mr* RegionOps();
void CountBusyRegionLocked(Endpoint* endpoint);
int TryWait(fid_fabric* fabric, fid** fids, int count);
int QueryAtomic(fid_domain* domain, enum fi_datatype datatype, enum fi_op op,
                fi_atomic_attr* attributes, uint64_t flags);

}  // namespace contract

#endif  // INVOKER_TESTS_CONTRACT_PROVIDERS_CORE_OBJECTS_H_
