#include "src/transport/fabric/endpoint.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/transport/base/shared_files.h"
#include "src/transport/base/signal_guard.h"
#include "src/transport/base/status.h"
#include "src/transport/discovery/rdma_device.h"
#include "src/transport/fabric/process_addresses.h"

namespace invoker::transport {
namespace {

absl::StatusOr<std::string> NameOf(fid_ep* endpoint) {
  size_t length = 0;
  int code = fi_getname(&endpoint->fid, nullptr, &length);
  if (code != -FI_ETOOSMALL && code != 0) return ToStatus("fi_getname", code);
  std::string name(length, '\0');
  code = fi_getname(&endpoint->fid, name.data(), &length);
  if (code != 0) return ToStatus("fi_getname", code);
  name.resize(length);
  return name;
}

// libfabric says no more than "Invalid argument" where a device's queues are too small.
absl::Status NotEnabled(const fi_info& info, int code) {
  const absl::Status status = ToStatus("fi_enable", code);
  const char* device = info.domain_attr->name;
  const std::string why = device == nullptr ? "" : WhyQueueDoesNotFit(std::string(device));
  return why.empty() ? status
                     : absl::Status(status.code(), absl::StrCat(status.message(), ": ", why));
}

absl::StatusOr<FidPtr<fid_eq>> OpenEvents(const Fabric& fabric) {
  if (!fabric.profile().faults_need_event_queue) return FidPtr<fid_eq>();
  fi_eq_attr attributes = {};
  attributes.wait_obj = FI_WAIT_NONE;
  fid_eq* raw = nullptr;
  const int code = fi_eq_open(fabric.get(), &attributes, &raw, nullptr);
  if (code != 0) return ToStatus("fi_eq_open", code);
  return FidPtr<fid_eq>(raw);
}

// Where an endpoint is a file, the name says whose it is. Without a name of ours it has the
// provider's.
absl::Status NameFile(absl::string_view scheme, fid_ep* endpoint) {
  if (scheme.empty()) return absl::OkStatus();
  const std::string file = NewSharedFileName();
  if (file.empty()) return absl::OkStatus();
  std::string name = absl::StrCat(scheme, file);
  const int code = fi_setname(&endpoint->fid, name.data(), name.size() + 1);
  return code == 0 ? absl::OkStatus() : ToStatus("fi_setname", code);
}

}  // namespace

absl::StatusOr<Endpoint> Endpoint::Open(const Fabric& fabric, const Domain& domain,
                                        const CompletionQueue& cq, const AddressVector& av) {
  const SignalGuard guard;
  absl::StatusOr<FidPtr<fid_eq>> events = OpenEvents(fabric);
  if (!events.ok()) return events.status();
  fid_ep* raw = nullptr;
  int code = fi_endpoint(domain.get(), const_cast<fi_info*>(&fabric.info()), &raw, nullptr);
  if (code != 0) return ToStatus("fi_endpoint", code);
  FidPtr<fid_ep> endpoint(raw);
  code = fi_ep_bind(raw, &av.get()->fid, 0);
  if (code != 0) return ToStatus("fi_ep_bind of the address vector", code);
  code = fi_ep_bind(raw, &cq.get()->fid, FI_TRANSMIT | FI_RECV);
  if (code != 0) return ToStatus("fi_ep_bind of the completion queue", code);
  if (*events != nullptr) {
    code = fi_ep_bind(raw, &(*events)->fid, 0);
    if (code != 0) return ToStatus("fi_ep_bind of the event queue", code);
  }
  absl::Status named = NameFile(fabric.profile().file_scheme, raw);
  if (!named.ok()) return named;
  code = fi_enable(raw);
  if (code != 0) return NotEnabled(fabric.info(), code);
  absl::StatusOr<std::string> name = NameOf(raw);
  if (!name.ok()) return name.status();
  if (fabric.profile().alias_own_process) AddProcessAddress(*name);
  return Endpoint(*std::move(events), std::move(endpoint), *std::move(name));
}

Endpoint::~Endpoint() {
  if (!lost()) return;
  static_cast<void>(guard_.release());
  static_cast<void>(endpoint_.release());
  static_cast<void>(events_.release());
}

void Endpoint::Quarantine(bool close) {
  quarantined_ = true;
  if (!close || lost()) return;
  guard_.reset();
  endpoint_.reset();
  events_.reset();
}

uint64_t Endpoint::TakeFaults() {
  if (events_ == nullptr) return 0;
  uint64_t faults = 0;
  while (true) {
    uint32_t event;
    fi_eq_entry entry;
    const ssize_t code = fi_eq_read(events_.get(), &event, &entry, sizeof(entry), 0);
    if (code > 0) continue;  // no fault
    fi_eq_err_entry fault = {};
    if (code != -FI_EAVAIL || fi_eq_readerr(events_.get(), &fault, 0) <= 0) return faults;
    ++faults;
  }
}

void Endpoint::Guard(const Profile& profile, absl::Duration limit, CompletionQueue* cq) {
  if (!profile.peers_share_locks || !GuardedCalls::Possible(get(), cq->get())) return;
  guard_ = std::make_unique<GuardedCalls>(get(), cq->get(), limit, profile.left_posts_are_clean);
  poster_ = guard_->endpoint();
  cq->ReadThrough(guard_->queue());
}

}  // namespace invoker::transport
