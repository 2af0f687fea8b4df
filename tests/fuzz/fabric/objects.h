// The objects that libfabric's tables hang on. A handle comes first in each, so that a pointer to
// it is one to the object.

#ifndef INVOKER_TESTS_FUZZ_FABRIC_OBJECTS_H_
#define INVOKER_TESTS_FUZZ_FABRIC_OBJECTS_H_

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace invoker::fuzz {

struct Region;

struct Fabric {
  fid_fabric handle = {};
};

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

struct Queue {
  fid_cq handle = {};
  std::deque<fi_cq_data_entry> entries;
  std::deque<fi_cq_err_entry> errors;
};

struct Receive {
  void* buffer;
  size_t size;
  void* context;
};

struct Endpoint {
  fid_ep handle = {};
  uint32_t number = 0;
  Domain* domain = nullptr;
  Queue* queue = nullptr;
  AddressVector* addresses = nullptr;
  bool selective = false;
  bool completes_unasked = false;
  std::deque<Receive> receives;
};

template <typename Object, typename Handle>
Object* ObjectOf(Handle* handle) {
  return reinterpret_cast<Object*>(handle);
}

// nullptr if it has closed.
Endpoint* FindEndpoint(uint32_t number);

// Every endpoint's.
extern fi_ops_rma rma_ops;
extern fi_ops_msg msg_ops;

}  // namespace invoker::fuzz

#endif  // INVOKER_TESTS_FUZZ_FABRIC_OBJECTS_H_
