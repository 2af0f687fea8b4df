#include "src/transport/endpoint.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/transport/rdma_device.h"
#include "src/transport/signal_guard.h"
#include "src/transport/status.h"

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

// A provider may name an endpoint after its process and a count, and refuse the name (-FI_EBUSY) if
// there is a file of that name in /dev/shm: one that was left by a process which was killed and had
// the same number. The next endpoint has another name, and there are as many such files as that
// process had endpoints.
constexpr int kMostNames = 1024;

struct Enabled {
  FidPtr<fid_ep> endpoint;
  int code;  // of fi_enable
};

absl::StatusOr<Enabled> OpenAndEnable(const Fabric& fabric, const Domain& domain,
                                      const CompletionQueue& cq, const AddressVector& av) {
  const SignalGuard guard;
  fid_ep* raw = nullptr;
  int code = fi_endpoint(domain.get(), const_cast<fi_info*>(&fabric.info()), &raw, nullptr);
  if (code != 0) return ToStatus("fi_endpoint", code);
  FidPtr<fid_ep> endpoint(raw);
  code = fi_ep_bind(raw, &av.get()->fid, 0);
  if (code != 0) return ToStatus("fi_ep_bind of the address vector", code);
  code = fi_ep_bind(raw, &cq.get()->fid, FI_TRANSMIT | FI_RECV);
  if (code != 0) return ToStatus("fi_ep_bind of the completion queue", code);
  code = fi_enable(raw);
  return Enabled{std::move(endpoint), code};
}

}  // namespace

absl::StatusOr<Endpoint> Endpoint::Open(const Fabric& fabric, const Domain& domain,
                                        const CompletionQueue& cq, const AddressVector& av) {
  absl::StatusOr<Enabled> enabled = OpenAndEnable(fabric, domain, cq, av);
  for (int names = 1; enabled.ok() && enabled->code == -FI_EBUSY && names < kMostNames; ++names) {
    enabled = OpenAndEnable(fabric, domain, cq, av);
  }
  if (!enabled.ok()) return enabled.status();
  if (enabled->code != 0) return NotEnabled(fabric.info(), enabled->code);
  absl::StatusOr<std::string> name = NameOf(enabled->endpoint.get());
  if (!name.ok()) return name.status();
  return Endpoint(std::move(enabled->endpoint), *std::move(name));
}

Endpoint::~Endpoint() {
  if (!lost()) return;
  static_cast<void>(guard_.release());
  static_cast<void>(endpoint_.release());
}

void Endpoint::Guard(const Profile& profile, absl::Duration limit, CompletionQueue* cq) {
  if (!profile.peers_share_locks || !GuardedCalls::Possible(get(), cq->get())) return;
  guard_ = std::make_unique<GuardedCalls>(get(), cq->get(), limit, profile.left_posts_are_clean);
  poster_ = guard_->endpoint();
  cq->ReadThrough(guard_->queue());
}

}  // namespace invoker::transport
