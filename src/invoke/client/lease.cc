#include "invoker/lease.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/code/upload_client.h"
#include "src/invoke/client/open_sessions.h"
#include "src/invoke/client/stored_value.h"
#include "src/invoke/connect/client_lease.h"
#include "src/invoke/connect/connect_times.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/connect/worker_contact.h"

namespace invoker {
namespace {

// For the bill: long enough for a machine on which everything takes its time, the end of the
// executors too.
constexpr absl::Duration kBillTimeout = absl::Seconds(20);

// For a lease that is dropped, whose bill nobody reads.
constexpr absl::Duration kDropTimeout = absl::Seconds(2);

LeaseTerms TermsOf(const LeaseOptions& options) {
  LeaseTerms terms;
  terms.executors = options.executors;
  terms.kind = options.kind;
  terms.memory_bytes = options.memory_bytes;
  terms.polling = options.polling;
  terms.hot_timeout = options.hot_timeout;
  terms.ttl = options.ttl;
  terms.call_limit = options.call_limit;
  terms.wait = options.wait;
  terms.tenant = options.tenant;
  terms.peer_timeout = options.client.peer_timeout;
  return terms;
}

std::vector<Client*> PointersTo(const std::vector<std::unique_ptr<Client>>& clients) {
  std::vector<Client*> pointers;
  for (const std::unique_ptr<Client>& client : clients) pointers.push_back(client.get());
  return pointers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lease>> Lease::Acquire(absl::string_view server,
                                                      const LeaseOptions& options) {
  if (options.executors == 0) {
    return absl::InvalidArgumentError(
        "a lease has one executor at least; to share those of the worker, connect a client");
  }
  absl::StatusOr<std::shared_ptr<const WorkerContact>> contact =
      WorkerContact::Find(server, options.client);
  if (!contact.ok()) return contact.status();
  if (absl::Status status = (*contact)->Usable(); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<ClientLease>> held = [&] {
    const ConnectStep step(options.client.times, &ConnectTimes::lease);
    return ClientLease::Acquire(*std::move(contact), TermsOf(options),
                                options.client.connect_timeout, options.on_queued);
  }();
  if (!held.ok()) return held.status();
  if ((*held)->terms().executors != options.executors) {
    return absl::InternalError(absl::StrCat("the worker at ", (*held)->contact().target(),
                                            " granted ", (*held)->terms().executors,
                                            " executors instead of ", options.executors));
  }
  absl::StatusOr<std::vector<std::unique_ptr<Client>>> clients =
      OpenSessions(*held, options.executors, options.client);
  if (!clients.ok()) {
    // If the lease has ended meanwhile, that is why.
    const absl::Status lost = (*held)->status();
    return lost.ok() ? clients.status() : lost;
  }
  return std::unique_ptr<Lease>(new Lease(*std::move(held), *std::move(clients)));
}

Lease::Lease(std::shared_ptr<ClientLease> held, std::vector<std::unique_ptr<Client>> clients)
    : held_(std::move(held)),
      clients_(std::move(clients)),
      places_(std::make_shared<StorePlaces>(PointersTo(clients_))) {}

Lease::~Lease() {
  places_->Close();
  if (!released_) ReleaseWithin(kDropTimeout).IgnoreError();
}

absl::StatusOr<RemoteFunction> Lease::Function(absl::string_view name) const {
  return clients_.front()->Function(name);
}

std::vector<std::string> Lease::FunctionNames() const { return clients_.front()->FunctionNames(); }

absl::Status Lease::Upload(const std::string& path, absl::Duration timeout) {
  absl::StatusOr<std::string> code = ReadCode(path);
  if (!code.ok()) return code.status();
  const size_t slash = path.rfind('/');
  return UploadCode(*code, CodeKind::kLibrary,
                    slash == std::string::npos ? path : path.substr(slash + 1), timeout);
}

absl::Status Lease::UploadCode(absl::string_view code, CodeKind kind, absl::string_view name,
                               absl::Duration timeout) {
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> functions =
      UploadAndLoad(held_->contact().bootstrap(), held_->id(), code, kind, name, timeout);
  if (!functions.ok()) return functions.status();
  for (const std::unique_ptr<Client>& client : clients_) {
    client->connection().AddFunctions(*functions);
  }
  return absl::OkStatus();
}

absl::StatusOr<UntypedReference> Lease::PutBytes(absl::string_view type, size_t bytes,
                                                 absl::FunctionRef<void(std::byte*)> write,
                                                 const CallOptions& options) {
  absl::StatusOr<std::shared_ptr<StoredValue>> value =
      StoredValue::Put({places_}, std::string(type), bytes, write, options);
  if (!value.ok()) return value.status();
  return UntypedReference(*std::move(value));
}

absl::Status Lease::status() const {
  const absl::Status lost = held_->status();
  if (lost.ok() || absl::IsAborted(lost)) return lost;
  return absl::UnavailableError(lost.message());
}

absl::StatusOr<ResourceUsage> Lease::Usage() const {
  if (released_) {
    return absl::FailedPreconditionError(
        "the lease has been released, and the bill came with that");
  }
  if (const absl::optional<LeaseEnd> over = end(); over.has_value()) return over->usage;
  absl::StatusOr<ResourceUsage> usage =
      held_->contact().bootstrap()->GetLeaseUsage(held_->id(), kBillTimeout);
  if (usage.ok()) return usage;
  // It may have ended meanwhile.
  if (const absl::optional<LeaseEnd> over = end(); over.has_value()) return over->usage;
  if (absl::Status lost = status(); !lost.ok()) return lost;
  return usage;
}

absl::optional<LeaseEnd> Lease::end() const { return held_->end(); }

const LeaseTerms& Lease::terms() const { return held_->terms(); }

const std::string& Lease::server() const { return held_->contact().target(); }

absl::StatusOr<LeaseEnd> Lease::Release() { return ReleaseWithin(kBillTimeout); }

absl::StatusOr<LeaseEnd> Lease::ReleaseWithin(absl::Duration limit) {
  if (released_.exchange(true)) {
    return absl::FailedPreconditionError("the lease has been released already");
  }
  // The lease's end closes all sessions at once.
  for (const std::unique_ptr<Client>& client : clients_) client->connection().EndCalls();
  return held_->Release(limit);
}

}  // namespace invoker
