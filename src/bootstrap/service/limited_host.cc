#include "src/bootstrap/service/limited_host.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/security/tenant.h"

namespace invoker::bootstrap {
namespace {

// Request window and response staging; with payloads under a tag, a private copy of each.
constexpr uint64_t kWindows = 2;
constexpr uint64_t kWindowsWithCopies = 4;

uint64_t MachineMemoryBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGESIZE);
  return static_cast<uint64_t>(std::max<int64_t>(pages, 1)) *
         static_cast<uint64_t>(std::max<int64_t>(page, 1));
}

SessionLimits Complete(const SessionLimits& asked) {
  SessionLimits limits = asked;
  if (limits.window_memory == 0) limits.window_memory = MachineMemoryBytes() / 2;
  return limits;
}

uint64_t MemoryOf(const LeaseTerms& terms) { return terms.memory_bytes * terms.executors; }

}  // namespace

std::string CanonicalEndpoint(const std::string& provider, const std::string& address) {
  sa_family_t family = AF_UNSPEC;
  if (address.size() >= sizeof(sockaddr_in)) memcpy(&family, address.data(), sizeof(family));
  if (family == AF_INET && address.size() == sizeof(sockaddr_in)) {
    sockaddr_in four;
    memcpy(&four, address.data(), sizeof(four));
    return absl::StrCat(provider, " 4 ", four.sin_addr.s_addr, " ", four.sin_port);
  }
  if (family == AF_INET6 && address.size() == sizeof(sockaddr_in6)) {
    sockaddr_in6 six;
    memcpy(&six, address.data(), sizeof(six));
    uint32_t last = 0;
    memcpy(&last, six.sin6_addr.s6_addr + 12, sizeof(last));
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
      return absl::StrCat(provider, " 4 ", last, " ", six.sin6_port);
    }
    return absl::StrCat(provider, " 6 ",
                        absl::string_view(reinterpret_cast<const char*>(&six.sin6_addr), 16), " ",
                        six.sin6_port);
  }
  // A name (SCHEME://...) ends with a 0; anything else is compared whole.
  const size_t end = address.find("://") != std::string::npos ? address.find('\0') : address.npos;
  return absl::StrCat(provider, " ", address.substr(0, end));
}

// Sees what a lease is granted on its way to who asked.
class LimitedHost::Observer final : public LeaseObserver {
 public:
  Observer(LimitedHost* host, uint64_t lease, std::shared_ptr<LeaseObserver> next)
      : host_(host), lease_(lease), next_(std::move(next)) {}

  void OnQueued(uint32_t ahead) override { next_->OnQueued(ahead); }
  void OnGranted(const absl::StatusOr<LeaseTerms>& terms) override {
    if (terms.ok()) host_->OnGranted(lease_, *terms);
    next_->OnGranted(terms);
  }
  void OnEnded(const LeaseEnd& end) override { next_->OnEnded(end); }

 private:
  LimitedHost* const host_;
  const uint64_t lease_;
  const std::shared_ptr<LeaseObserver> next_;
};

LimitedHost::LimitedHost(const SessionLimits& limits, SessionHost* host)
    : limits_(Complete(limits)), host_(host) {}

uint64_t LimitedHost::refused() const {
  absl::MutexLock lock(&mutex_);
  return refused_;
}

void LimitedHost::OpenLease(uint64_t lease, const LeaseTerms& terms,
                            std::shared_ptr<LeaseObserver> observer) {
  {
    absl::MutexLock lock(&mutex_);
    leases_[lease].terms = terms;
  }
  host_->OpenLease(lease, terms, std::make_shared<Observer>(this, lease, std::move(observer)));
}

void LimitedHost::OnGranted(uint64_t lease, const LeaseTerms& terms) {
  absl::MutexLock lock(&mutex_);
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return;
  const auto allowed = found->second.terms.allowed;
  found->second.terms = terms;
  found->second.terms.allowed = allowed;
}

absl::Status LimitedHost::Check(const Lease& mine, uint64_t lease, const Session& session) const {
  const LeaseTerms& terms = mine.terms;
  const uint64_t of_lease = uint64_t{limits_.per_lease} * std::max(terms.executors, 1u);
  if (mine.sessions >= of_lease) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the lease has ", mine.sessions,
                     " sessions, which is as many as this server allows one "
                     "(--max-sessions-per-lease); close some"));
  }
  if (terms.allowed != nullptr) {
    const auto held = of_tenant_.find(terms.tenant);
    if (held != of_tenant_.end() && held->second >= terms.allowed->max_sessions) {
      return absl::ResourceExhaustedError(
          absl::StrCat("tenant \"", terms.tenant, "\" has ", held->second,
                       " sessions, which is as many as this server's policy allows it "
                       "(max_sessions); close some"));
    }
    if (terms.allowed->max_sessions == 0) {
      return absl::PermissionDeniedError(absl::StrCat(
          "this server's policy allows tenant \"", terms.tenant, "\" no session (max_sessions)"));
    }
  }
  if (sessions_ >= limits_.total) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server has ", sessions_,
                     " sessions, which is as many as it may have (--max-sessions); "
                     "try again later, or use another worker"));
  }
  if (terms.executors > 0) {
    if (mine.bytes + session.bytes > MemoryOf(terms)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the windows of the session take ", session.bytes, " bytes; of the lease's ",
          MemoryOf(terms), " bytes of memory, windows have ", mine.bytes,
          " already; ask for smaller windows, fewer sessions, or a lease with more memory"));
    }
  } else if (session.bytes >
             limits_.window_memory - std::min(shared_bytes_, limits_.window_memory)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the windows of the session take ", session.bytes, " bytes; of the ", limits_.window_memory,
        " bytes that this server has for windows (--window-memory), ", shared_bytes_,
        " are taken; ask for smaller ones, lease an executor, or use another worker"));
  }
  const auto at = endpoints_.find(session.endpoint);
  if (at != endpoints_.end() && at->second.lease != lease) {
    return absl::AlreadyExistsError(
        "another client has a session at this endpoint's address, and no two may share one: open "
        "an endpoint of your own, or, if that client has just ended, try again");
  }
  return absl::OkStatus();
}

void LimitedHost::Count(uint64_t lease, Lease* mine, const Session& session) {
  ++mine->sessions;
  mine->bytes += session.bytes;
  ++sessions_;
  ++of_tenant_[mine->terms.tenant];
  if (mine->terms.executors == 0) shared_bytes_ += session.bytes;
  Endpoint& endpoint = endpoints_[session.endpoint];
  endpoint.lease = lease;
  ++endpoint.sessions;
}

void LimitedHost::Uncount(Lease* mine, const Session& session) {
  --mine->sessions;
  mine->bytes -= session.bytes;
  --sessions_;
  const auto tenant = of_tenant_.find(mine->terms.tenant);
  if (--tenant->second == 0) of_tenant_.erase(tenant);
  if (mine->terms.executors == 0) shared_bytes_ -= session.bytes;
  const auto endpoint = endpoints_.find(session.endpoint);
  if (--endpoint->second.sessions == 0) endpoints_.erase(endpoint);
}

absl::StatusOr<OpenSessionReply> LimitedHost::OpenSession(uint64_t lease,
                                                          const OpenSessionRequest& request) {
  const bool copies = std::max(request.data_auth, host_->Info().data_auth) == DataAuth::kFull;
  Session session;
  session.bytes = (copies ? kWindowsWithCopies : kWindows) * request.window_bytes;
  session.endpoint = CanonicalEndpoint(request.fabric.provider, request.endpoint_address);
  {
    absl::MutexLock lock(&mutex_);
    Lease& mine = leases_[lease];
    if (absl::Status status = Check(mine, lease, session); !status.ok()) {
      ++refused_;
      return status;
    }
    Count(lease, &mine, session);
    ++mine.opening;
  }
  absl::StatusOr<OpenSessionReply> reply = host_->OpenSession(lease, request);
  absl::MutexLock lock(&mutex_);
  // A request that opens a session keeps the lease from being closed.
  Lease& mine = leases_.at(lease);
  if (!reply.ok() || mine.ended_early.contains(reply->handle)) {
    Uncount(&mine, session);
  } else {
    Forget(lease, reply->handle);
    mine.open[reply->handle] = std::move(session);
  }
  if (--mine.opening == 0) mine.ended_early.clear();
  return reply;
}

void LimitedHost::Forget(uint64_t lease, uint64_t handle) {
  const auto mine = leases_.find(lease);
  if (mine == leases_.end()) return;
  const auto session = mine->second.open.find(handle);
  if (session == mine->second.open.end()) return;
  Uncount(&mine->second, session->second);
  mine->second.open.erase(session);
}

void LimitedHost::OnSessionEnded(uint64_t lease, uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto mine = leases_.find(lease);
  if (mine == leases_.end()) return;
  if (mine->second.opening > 0 && !mine->second.open.contains(handle)) {
    mine->second.ended_early.insert(handle);
  }
  Forget(lease, handle);
}

absl::Status LimitedHost::CloseSession(uint64_t lease, uint64_t handle) {
  const absl::Status status = host_->CloseSession(lease, handle);
  absl::MutexLock lock(&mutex_);
  Forget(lease, handle);
  return status;
}

ResourceUsage LimitedHost::CloseLease(uint64_t lease) {
  ResourceUsage usage = host_->CloseLease(lease);
  absl::MutexLock lock(&mutex_);
  const auto mine = leases_.find(lease);
  if (mine == leases_.end()) return usage;
  for (const auto& [handle, session] : mine->second.open) Uncount(&mine->second, session);
  leases_.erase(mine);
  return usage;
}

}  // namespace invoker::bootstrap
