// Endpoint: opening, binding, enabling, options, closing, and the turn of a poll.

#include "tests/contract_providers/core/endpoint.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/contract_providers/core/stubs.h"

namespace contract {
namespace {

// Endpoints are numbered in the order in which a process opens them; each has decisions of its own.
std::atomic<uint64_t> next_endpoint{0};

// Packets that one poll takes in, so that a poll ends.
constexpr int kPollBudget = 64;

// What an endpoint that closes lets leave; a dead peer must not hold it for ever.
constexpr int kClosingRounds = 2000;

int Bind(fid* handle, fid* object, uint64_t flags) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->BindLocked(object, flags);
}

int Control(fid* handle, int command, void*) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  if (command != FI_ENABLE) return -FI_ENOSYS;
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->EnableLocked();
}

int Close(fid* handle) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  {
    std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
    endpoint->CloseLocked();
  }
  delete endpoint;
  return 0;
}

size_t Decisions(fid_ep* handle, Decision* out, size_t count) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->freedoms().Decisions(out, count);
}

void GetStatistics(fid_ep* handle, Statistics* out) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  *out = endpoint->statistics();
  out->calls_refused = endpoint->freedoms().refused();
}

int OpenOps(fid*, const char* name, uint64_t, void** result, void*) {
  static ControlOps ops = {Decisions, GetStatistics};
  if (strcmp(name, kControlName) != 0) return -FI_ENOSYS;
  *result = &ops;
  return 0;
}

int GetName(fid* handle, void* out, size_t* length) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  if (!endpoint->enabled()) return -FI_EADDRNOTAVAIL;
  const size_t room = *length;
  *length = endpoint->address().size();
  if (out != nullptr) memcpy(out, endpoint->address().data(), std::min(room, *length));
  return room < *length ? -FI_ETOOSMALL : 0;
}

ssize_t Cancel(fid* handle, void* context) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  if (!endpoint->contract().cancel_served) return -FI_ENOSYS;
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return endpoint->CancelLocked(context);
}

// Both providers take this option only, of those that the API itself has. It means something for
// FI_MULTI_RECV, which is not served.
int SetOption(fid*, int level, int name, const void*, size_t length) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  return length < sizeof(size_t) ? -FI_EINVAL : 0;
}

int GetOption(fid*, int level, int name, void* value, size_t* length) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (*length < sizeof(size_t)) return -FI_ETOOSMALL;
  *length = sizeof(size_t);
  const size_t none = 0;
  memcpy(value, &none, sizeof(none));
  return 0;
}

ssize_t RoomToTransmit(fid_ep* handle) {
  auto* endpoint = ObjectOf<Endpoint>(handle);
  std::lock_guard<std::mutex> lock(endpoint->domain()->lock);
  return static_cast<ssize_t>(endpoint->tx_room());
}

fi_ops* BaseOps() {
  static fi_ops ops = [] {
    fi_ops table = {};
    table.size = sizeof(table);
    table.close = Close;
    table.bind = Bind;
    table.control = Control;
    table.ops_open = OpenOps;
    StubAll(&table.tostr, &table.ops_set);
    return table;
  }();
  return &ops;
}

fi_ops_ep* EndpointOps() {
  static fi_ops_ep ops = [] {
    fi_ops_ep table = {};
    table.size = sizeof(table);
    table.cancel = Cancel;
    table.getopt = GetOption;
    table.setopt = SetOption;
    table.tx_size_left = RoomToTransmit;
    StubAll(&table.tx_ctx, &table.rx_ctx, &table.rx_size_left);
    return table;
  }();
  return &ops;
}

fi_ops_cm* ConnectionOps() {
  static fi_ops_cm ops = [] {
    fi_ops_cm table = {};
    table.size = sizeof(table);
    table.getname = GetName;
    StubAll(&table.setname, &table.getpeer, &table.connect, &table.listen, &table.accept,
            &table.reject, &table.shutdown, &table.join);
    return table;
  }();
  return &ops;
}

}  // namespace

int OpenEndpoint(fid_domain* handle, fi_info* info, fid_ep** result, void* context) {
  auto* domain = ObjectOf<Domain>(handle);
  if (info->ep_attr->type != FI_EP_RDM) return -FI_ENOSYS;
  auto endpoint = std::make_unique<Endpoint>(domain, *info);
  endpoint->handle = {};
  endpoint->handle.fid.fclass = FI_CLASS_EP;
  endpoint->handle.fid.context = context;
  endpoint->handle.fid.ops = BaseOps();
  endpoint->handle.ops = EndpointOps();
  endpoint->handle.cm = ConnectionOps();
  endpoint->handle.msg = MessageOps();
  endpoint->handle.rma = RmaOps();
  endpoint->handle.tagged = TaggedOps();
  endpoint->handle.atomic = AtomicOps();
  std::lock_guard<std::mutex> lock(domain->lock);
  ++domain->children;
  *result = &endpoint.release()->handle;
  return 0;
}

Endpoint::Endpoint(Domain* domain, const fi_info& info)
    : domain_(domain),
      caps_(info.caps),
      tx_flags_(info.tx_attr->op_flags),
      rx_flags_(info.rx_attr->op_flags),
      tx_size_(info.tx_attr->size),
      rx_size_(info.rx_attr->size),
      order_(info.tx_attr->msg_order),
      freedoms_(*domain->config, next_endpoint++),
      events_(this) {}

int Endpoint::BindLocked(fid* object, uint64_t flags) {
  if (enabled()) return -FI_EOPBADSTATE;
  if (object->fclass == FI_CLASS_AV) {
    auto* av = ObjectOf<AddressVector>(object);
    if (av->domain != domain_ || av_ != nullptr) return -FI_EINVAL;
    if (contract().one_endpoint_per_av && av->endpoints > 0) return -FI_ENOSYS;
    ++av->endpoints;
    av_ = av;
    return 0;
  }
  // It never has an event.
  if (object->fclass == FI_CLASS_EQ) return 0;
  if (object->fclass != FI_CLASS_CQ) return -FI_ENOSYS;
  auto* cq = ObjectOf<CompletionQueue>(object);
  if (cq->domain != domain_ || (flags & (FI_TRANSMIT | FI_RECV)) == 0) return -FI_EINVAL;
  if ((flags & FI_TRANSMIT) != 0) {
    tx_cq_ = cq;
    tx_selective_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
  }
  if ((flags & FI_RECV) != 0) {
    rx_cq_ = cq;
    rx_selective_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
  }
  if (std::find(cq->endpoints.begin(), cq->endpoints.end(), this) == cq->endpoints.end()) {
    cq->endpoints.push_back(this);
  }
  return 0;
}

int Endpoint::EnableLocked() {
  if (enabled()) return 0;
  if (av_ == nullptr) return -FI_ENOAV;
  if (tx_cq_ == nullptr || rx_cq_ == nullptr) return -FI_ENOCQ;
  const int code = InnerEndpoint::Open(*domain_->inner, contract(), &inner_);
  if (code != 0) return code;
  address_ = EncodeAddress(contract(), inner_->place(), Entropy());
  domain_->endpoints.push_back(this);
  return 0;
}

void Endpoint::ForgetLocked(const AddressVector* av, const std::string& identity) {
  if (av != av_ || !contract().peers_meet_once) return;
  auto found = peers_.find(identity);
  if (found != peers_.end() && found->second->met) found->second->forgotten = true;
}

size_t Endpoint::tx_room() const {
  return operations_.size() >= tx_size_ ? 0 : tx_size_ - operations_.size();
}

void Endpoint::ProgressLocked() {
  if (!enabled()) return;
  // Before anything new arrives, so that one poll late means the next poll.
  for (auto entry = deferred_.begin(); entry != deferred_.end();) {
    if (--entry->polls > 0) {
      ++entry;
      continue;
    }
    const std::function<void()> run = std::move(entry->run);
    entry = deferred_.erase(entry);
    run();
  }
  for (auto write = parked_writes_.begin(); write != parked_writes_.end();) {
    if ((*write)->polls > 0) --(*write)->polls;
    if (PlaceSome(write->get())) {
      write = parked_writes_.erase(write);
    } else {
      ++write;
    }
  }
  for (auto& [identity, peer] : peers_) RunAtomics(peer.get(), true);
  inner_->Poll(kPollBudget, &events_);
  LeaveAll(true);
  FlushAnswers();
}

void Endpoint::CloseLocked() {
  for (int round = 0; enabled() && round < kClosingRounds; ++round) {
    bool waiting = !answers_.empty();
    for (const auto& [id, operation] : operations_) {
      waiting = waiting || !operation->all_left || operation->in_flight > 0;
    }
    if (!waiting) break;
    inner_->Poll(kPollBudget, &events_);
    LeaveAll(true);
    FlushAnswers();
  }
  for (const Posted& posted : receives_) Unhold(posted);
  receives_.clear();
  for (CompletionQueue* cq : {tx_cq_, rx_cq_}) {
    if (cq == nullptr) continue;
    cq->endpoints.erase(std::remove(cq->endpoints.begin(), cq->endpoints.end(), this),
                        cq->endpoints.end());
  }
  auto& all = domain_->endpoints;
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
  if (av_ != nullptr) --av_->endpoints;
  inner_.reset();
  --domain_->children;
}

void CountBusyRegionLocked(Endpoint* endpoint) { ++endpoint->statistics().regions_busy; }

}  // namespace contract
