#include "src/invoke/connect/connection.h"

#include <algorithm>
#include <utility>

#include "src/invoke/connect/client_totals.h"
#include "src/invoke/connect/connect_times.h"
#include "src/invoke/connect/shared_leases.h"
#include "src/invoke/connect/worker_contact.h"

namespace invoker {
namespace {

// The executor of a lease may have crashed: its fabric shows that at once, and the lease, which
// knows the reason, only when the worker has put an end to all of it.
// A failure that is noticed at once ends its calls within the peer timeout all the same.
absl::Duration AwaitReasonFor(absl::Duration peer_timeout) {
  return std::min(0.75 * peer_timeout, absl::Seconds(5));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(absl::string_view server,
                                                             const ClientOptions& options) {
  SharedLeases& shared = SharedLeases::Get();
  absl::StatusOr<SharedLeases::Key> key = SharedLeases::KeyFor(server, options);
  if (!key.ok()) return key.status();
  if (const std::shared_ptr<ClientLease> joined = shared.Find(*key); joined != nullptr) {
    absl::StatusOr<std::unique_ptr<Connection>> connection =
        OpenUnder(joined, /*executor=*/0, options);
    if (connection.ok() || absl::IsInvalidArgument(connection.status())) return connection;
    // The worker may not know this lease any more, or open no more sessions under it, or the
    // fabrics may have changed since it was found. The worker may have opened a session all the
    // same, which lasts as long as the lease.
    joined->CloseToOthers();
  }
  absl::StatusOr<std::shared_ptr<const WorkerContact>> contact =
      WorkerContact::Find(server, options);
  if (!contact.ok()) return contact.status();
  if (absl::Status status = (*contact)->Usable(); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<ClientLease>> lease = [&] {
    ConnectStep step(options.times, &ConnectTimes::lease);
    LeaseTerms terms;
    terms.peer_timeout = options.peer_timeout;
    return ClientLease::Acquire(*std::move(contact), terms, options.connect_timeout);
  }();
  if (!lease.ok()) return lease.status();
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      OpenUnder(*lease, /*executor=*/0, options);
  if (connection.ok()) shared.Add(*std::move(key), *lease);
  return connection;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenUnder(
    std::shared_ptr<ClientLease> lease, uint32_t executor, const ClientOptions& options) {
  std::unique_ptr<Connection> connection(new Connection(std::move(lease), options));
  absl::StatusOr<WorkerContact::Opened> opened = connection->contact_->OpenSession(
      connection->lease_->id(), executor, connection->watch_.get(), &connection->options_);
  if (!opened.ok()) return opened.status();
  connection->session_ = std::move(opened->session);
  connection->watch_->Proven();
  if (connection->lease_->terms().executors != 0)
    connection->driver()->HoldFailures(AwaitReasonFor(options.peer_timeout));
  connection->fabric_choice_ = std::move(opened->fabric_choice);
  connection->AddFunctions(connection->session_->functions());
  ClientTotals::Add(connection.get());
  // It is the caller's, and may go now.
  connection->options_.times = nullptr;
  return connection;
}

Connection::Connection(std::shared_ptr<ClientLease> lease, const ClientOptions& options)
    : options_(options),
      lease_(std::move(lease)),
      contact_(lease_->shared_contact()),
      watch_(std::make_shared<SessionWatch>(contact_->target(), options.peer_timeout)) {
  lease_->Add(watch_);
}

Connection::~Connection() { Close(); }

void Connection::Close() {
  if (lease_ == nullptr) return;
  if (session_ != nullptr && !session_->Close()) lease_->CloseToOthers();
  ClientTotals::Remove(this);
  lease_->Remove(watch_.get());
  lease_.reset();
}

std::vector<bootstrap::FunctionInfo> Connection::functions() const {
  absl::MutexLock lock(&mutex_);
  return functions_;
}

void Connection::AddFunctions(std::vector<bootstrap::FunctionInfo> functions) {
  absl::MutexLock lock(&mutex_);
  if (functions.size() > functions_.size()) functions_ = std::move(functions);
}

}  // namespace invoker
