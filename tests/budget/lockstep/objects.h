// The objects that libfabric's tables hang on. A handle comes first in each, so that a pointer to
// it is one to the object.

#ifndef INVOKER_TESTS_BUDGET_LOCKSTEP_OBJECTS_H_
#define INVOKER_TESTS_BUDGET_LOCKSTEP_OBJECTS_H_

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/budget/lockstep/turns.h"

namespace invoker::lockstep {

struct Region;

struct Domain {
  fid_domain handle = {};
  int mr_mode = 0;
  uint64_t next_key = 1;
  std::vector<Region*> regions;
};

struct Region {
  fid_mr handle = {};
  Domain* domain = nullptr;
  std::byte* data = nullptr;
  size_t size = 0;
  uint64_t access = 0;
};

struct AddressVector {
  fid_av handle = {};
  std::vector<uint32_t> endpoints;  // their numbers, by fi_addr_t
};

struct Receive {
  void* buffer;
  size_t size;
  void* context;
};

struct Endpoint {
  fid_ep handle = {};
  uint32_t number = 0;
  uint32_t address_format = FI_FORMAT_UNSPEC;
  Domain* domain = nullptr;
  Queue* queue = nullptr;
  AddressVector* addresses = nullptr;
  bool selective = false;          // FI_SELECTIVE_COMPLETION
  bool completes_unasked = false;  // FI_COMPLETION in the operation flags
  size_t inject_bytes = 0;
  std::deque<Receive> receives;
};

template <typename Object, typename Handle>
Object* ObjectOf(Handle* handle) {
  return reinterpret_cast<Object*>(handle);
}

// Under the lock. nullptr if it has been closed.
Endpoint* FindEndpoint(uint32_t number);

// posts.cc
extern fi_ops_rma rma_ops;
extern fi_ops_msg msg_ops;

}  // namespace invoker::lockstep

#endif  // INVOKER_TESTS_BUDGET_LOCKSTEP_OBJECTS_H_
