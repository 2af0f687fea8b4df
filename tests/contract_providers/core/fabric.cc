// Fabric and domain: opening, closing, and the thread that makes progress where the contract does
// not leave it to the caller.

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "tests/contract_providers/core/endpoint.h"
#include "tests/contract_providers/core/objects.h"
#include "tests/contract_providers/core/stubs.h"

namespace contract {
namespace {

// Between two rounds of the helper: often enough that nobody waits long, seldom enough that the
// rest of the machine runs.
constexpr auto kHelperPeriod = std::chrono::microseconds(100);

int CloseFabric(fid* handle) {
  auto* fabric = ObjectOf<Fabric>(handle);
  {
    std::lock_guard<std::mutex> lock(fabric->lock);
    if (fabric->children > 0) return -FI_EBUSY;
  }
  delete fabric;
  return 0;
}

int CloseDomain(fid* handle) {
  auto* domain = ObjectOf<Domain>(handle);
  {
    std::lock_guard<std::mutex> lock(domain->lock);
    if (domain->children > 0) return -FI_EBUSY;
    domain->stop_helper = true;
    domain->changed.notify_all();
  }
  if (domain->helper.joinable()) domain->helper.join();
  {
    std::lock_guard<std::mutex> lock(domain->fabric->lock);
    --domain->fabric->children;
  }
  delete domain;
  return 0;
}

template <typename Close>
fi_ops BaseOps(Close close) {
  fi_ops ops = {};
  ops.size = sizeof(ops);
  ops.close = close;
  StubAll(&ops.bind, &ops.control, &ops.ops_open, &ops.tostr, &ops.ops_set);
  return ops;
}

fi_ops_fabric FabricOps() {
  fi_ops_fabric ops = {};
  ops.size = sizeof(ops);
  ops.domain = OpenDomain;
  ops.trywait = TryWait;
  ops.eq_open = OpenEventQueue;
  StubAll(&ops.passive_ep, &ops.wait_open, &ops.domain2);
  return ops;
}

fi_ops_domain DomainOps() {
  fi_ops_domain ops = {};
  ops.size = sizeof(ops);
  ops.av_open = OpenAddressVector;
  ops.cq_open = OpenCompletionQueue;
  ops.endpoint = OpenEndpoint;
  ops.query_atomic = QueryAtomic;
  StubAll(&ops.scalable_ep, &ops.cntr_open, &ops.poll_open, &ops.stx_ctx, &ops.srx_ctx,
          &ops.query_collective, &ops.endpoint2);
  return ops;
}

void HelperLoop(Domain* domain) {
  std::unique_lock<std::mutex> lock(domain->lock);
  while (!domain->stop_helper) {
    for (Endpoint* endpoint : domain->endpoints) endpoint->ProgressLocked();
    domain->changed.wait_for(lock, kHelperPeriod);
  }
}

}  // namespace

int OpenFabric(const ProviderDescription& provider, fi_fabric_attr* attributes, fid_fabric** result,
               void* context) {
  const Contract* contract = nullptr;
  for (const Contract* candidate : provider.contracts()) {
    if (attributes->name == nullptr || strcmp(attributes->name, candidate->fabric_name) == 0) {
      contract = candidate;
    }
  }
  if (contract == nullptr) return -FI_ENODATA;
  auto fabric = std::make_unique<Fabric>();
  if (!Config::FromEnvironment(&fabric->config)) return -FI_EINVAL;
  static fi_ops base_ops = BaseOps(CloseFabric);
  static fi_ops_fabric fabric_ops = FabricOps();
  fabric->contract = contract;
  fabric->handle = {};
  fabric->handle.fid.fclass = FI_CLASS_FABRIC;
  fabric->handle.fid.context = context;
  fabric->handle.fid.ops = &base_ops;
  fabric->handle.ops = &fabric_ops;
  fabric->handle.api_version = attributes->api_version;
  *result = &fabric.release()->handle;
  return 0;
}

int OpenDomain(fid_fabric* handle, fi_info* info, fid_domain** result, void* context) {
  auto* fabric = ObjectOf<Fabric>(handle);
  auto domain = std::make_unique<Domain>();
  domain->fabric = fabric;
  domain->contract = fabric->contract;
  domain->config = &fabric->config;
  domain->mr_mode = info->domain_attr->mr_mode;
  const int code = InnerDomain::Open(fabric->config, &domain->inner);
  if (code != 0) return code;
  static fi_ops base_ops = BaseOps(CloseDomain);
  static fi_ops_domain domain_ops = DomainOps();
  domain->handle = {};
  domain->handle.fid.fclass = FI_CLASS_DOMAIN;
  domain->handle.fid.context = context;
  domain->handle.fid.ops = &base_ops;
  domain->handle.ops = &domain_ops;
  domain->handle.mr = RegionOps();
  {
    std::lock_guard<std::mutex> lock(fabric->lock);
    ++fabric->children;
  }
  if (info->domain_attr->data_progress == FI_PROGRESS_AUTO) {
    std::lock_guard<std::mutex> lock(domain->lock);
    domain->StartHelperLocked();
  }
  *result = &domain.release()->handle;
  return 0;
}

void Domain::StartHelperLocked() {
  if (!helper.joinable()) helper = std::thread(HelperLoop, this);
}

int TryWait(fid_fabric* handle, fid** fids, int count) {
  auto* fabric = ObjectOf<Fabric>(handle);
  if (!fabric->contract->wait.has_trywait) return -FI_ENOSYS;
  for (int i = 0; i < count; ++i) {
    if (fids[i]->fclass != FI_CLASS_CQ) return -FI_EINVAL;
    auto* cq = ObjectOf<CompletionQueue>(fids[i]);
    std::lock_guard<std::mutex> lock(cq->domain->lock);
    if (!cq->entries.empty()) return -FI_EAGAIN;
    if (cq->event_fd >= 0) {
      uint64_t ignored;
      [[maybe_unused]] const ssize_t taken = read(cq->event_fd, &ignored, sizeof(ignored));
    }
  }
  return 0;
}

int QueryAtomic(fid_domain* handle, enum fi_datatype datatype, enum fi_op op,
                fi_atomic_attr* attributes, uint64_t flags) {
  const Contract& contract = *ObjectOf<Domain>(handle)->contract;
  if ((flags & FI_FETCH_ATOMIC) != 0 && (flags & FI_COMPARE_ATOMIC) != 0) return -FI_EBADFLAGS;
  AtomicKind kind = AtomicKind::kWrite;
  if ((flags & FI_FETCH_ATOMIC) != 0) kind = AtomicKind::kFetch;
  if ((flags & FI_COMPARE_ATOMIC) != 0) kind = AtomicKind::kCompare;
  const size_t count = contract.atomic_count(kind, datatype, op);
  if (count == 0) return -FI_EOPNOTSUPP;
  if (attributes != nullptr) {
    attributes->count = count;
    attributes->size = AtomicSize(datatype);
  }
  return 0;
}

}  // namespace contract
