// Executors of one's own on a worker.
//
//   invoker::LeaseOptions options;
//   options.executors = 2;
//   auto lease = invoker::Lease::Acquire("10.0.0.7:7000", options);
//   absl::StatusOr<invoker::RemoteFunction> pi = (*lease)->Function("pi");
//   absl::StatusOr<invoker::Response> part = (*lease)->executor(1).Invoke(*pi, "1000000");
//   absl::StatusOr<invoker::LeaseEnd> bill = (*lease)->Release();
//
// A lease is cores and memory of the worker for as long as it is held. Each of its executors is a
// process of its own, which nobody else can call. A function
// that crashes, or breaks a limit, ends its lease and no other: every call that is under way on any
// of its executors fails with ABORTED and MAYBE_EXECUTED, further ones with ABORTED and NOT_SENT,
// and the messages say what happened. The lease also ends when its ttl is over, when the worker
// hears nothing of this process for some seconds, and when it is released or destroyed.
//
// To spread calls over the executors of one lease or of several, see client_group.h.

#ifndef INVOKER_SRC_INVOKE_LEASE_H_
#define INVOKER_SRC_INVOKE_LEASE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "invoker/client.h"
#include "invoker/export.h"
#include "invoker/lease_terms.h"
#include "invoker/reference.h"

namespace invoker {

namespace values_internal {

// Has a Lease or a ClientGroup store an array.
template <typename T, typename Keeper>
absl::StatusOr<Reference<T>> PutArray(Keeper* keeper, const T& array, const CallOptions& options) {
  absl::StatusOr<UntypedReference> stored = keeper->PutBytes(
      Value<T>::Name(), Value<T>::Size(array),
      [&array](std::byte* to) { Value<T>::Write(array, to); }, options);
  if (!stored.ok()) return stored.status();
  return Reference<T>(*std::move(stored));
}

}  // namespace values_internal

class ClientLease;
class StorePlaces;

// Every 0, and kDefault, leaves the choice to the worker; Lease::terms says what it was.
struct LeaseOptions {
  uint32_t executors = 1;  // each takes one core
  ExecutorKind kind = ExecutorKind::kNative;
  uint64_t memory_bytes = 0;  // for each executor; using more ends the lease
  // What an executor does while it has nothing to run.
  Polling polling = Polling::kDefault;
  absl::Duration hot_timeout;  // for kAdaptive: how long it polls after the last call
  absl::Duration ttl;          // the lease ends after it
  absl::Duration call_limit;   // a function that runs longer ends the lease
  absl::Duration wait;         // in line, if not enough is free; infinite: until there is
  std::string tenant;          // whose bill it is
  // ClientGroup::Acquire only: fewer executors will do, down to so many; 0: all of them.
  uint32_t at_least = 0;
  // ClientGroup::Acquire only: servers of a cluster that have these labels. A list of servers has
  // none.
  std::map<std::string, std::string> labels;
  // ClientGroup::Acquire only: "server", or the name of a label. The executors are spread as evenly
  // over the servers, or over the label's values, as what is free allows; empty: by load alone.
  std::string spread;
  // ClientGroup::Acquire only: when a server is lost, the group leases executors on other servers
  // in the background, uploads its code to them, and calls them instead. Calls that were under way
  // on the lost server end as they do without this option, and data that was stored there is lost.
  // The group does not replace executors that a function has ended.
  bool replace = false;
  // While it waits in line: how many leases come first. On a thread that must not be kept long.
  std::function<void(uint32_t ahead)> on_queued;
  ClientOptions client;  // for the session with each executor
};

// All methods but the destructor may be called from any thread.
class INVOKER_EXPORT Lease {
 public:
  // Acquires the lease on the invoker_server at "HOST:PORT" and opens a session with each executor.
  // Blocks as Client::Connect does, and for options.wait beyond that. RESOURCE_EXHAUSTED: not
  // enough is free, and it was not to wait, or not longer. INVALID_ARGUMENT: more than the worker
  // has at all. UNAVAILABLE: nobody answers, or the worker is shutting down.
  static absl::StatusOr<std::unique_ptr<Lease>> Acquire(absl::string_view server,
                                                        const LeaseOptions& options = {});

  // Releases the lease, unless Release has been called. The same holds as for a Client that is
  // destroyed, for each of its executors. Blocks until the worker has taken it back, for two
  // seconds at most.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  size_t size() const { return clients_.size(); }
  // The session with one executor, from 0 to size() - 1. It belongs to the lease; do not close it.
  Client& executor(size_t index) const { return *clients_[index]; }

  // A function by its name, which all executors have. NOT_FOUND lists what they have.
  absl::StatusOr<RemoteFunction> Function(absl::string_view name) const;
  std::vector<std::string> FunctionNames() const;

  // Loads the shared library in the file at `path` (of INVOKER_FUNCTION or of rFaaS functions) into
  // every executor, which it is sent to only if the worker does not have it yet; its functions can
  // be called by name then. PERMISSION_DENIED: the worker takes no code. FAILED_PRECONDITION: it
  // cannot be loaded, and the message says why. ALREADY_EXISTS: an executor has a function of that
  // name. Blocks.
  absl::Status Upload(const std::string& path, absl::Duration timeout = absl::Minutes(1));
  // The same for code in memory. `name` is that of a Python function, or what messages call a
  // library.
  absl::Status UploadCode(absl::string_view code, CodeKind kind, absl::string_view name,
                          absl::Duration timeout = absl::Minutes(1));

  // Stores an array in the memory of every executor, for typed calls of later to refer to: an
  // ArrayView, a span or a vector. It counts as memory of the lease. Blocks until all executors
  // have it. RESOURCE_EXHAUSTED: it is more than an executor has room for: three quarters of its
  // memory, less what is there already. Calls with large payloads have as much less. Of the
  // options, timeout and interrupted count.
  template <typename T>
  absl::StatusOr<Reference<T>> Put(const T& array,
                                   const CallOptions& options = kDefaultCallOptions) {
    return values_internal::PutArray(this, array, options);
  }
  // The same of a value of the type that a signature calls so, of `bytes` bytes, which `write` puts
  // together (docs/reference/typed_calls.md).
  absl::StatusOr<UntypedReference> PutBytes(absl::string_view type, size_t bytes,
                                            absl::FunctionRef<void(std::byte*)> write,
                                            const CallOptions& options = kDefaultCallOptions);

  // OK, or why the lease has ended: ABORTED for what a function did or a limit, else UNAVAILABLE.
  absl::Status status() const;

  // What it has used so far: as the worker knows it now, or, once it has ended, the bill.
  // FAILED_PRECONDITION once it has been released, which returns the bill. Blocks for a round trip
  // to the server, and for 20 seconds at most.
  absl::StatusOr<ResourceUsage> Usage() const;
  // How it has ended by itself, and the bill; nothing if the worker has not said that it has.
  absl::optional<LeaseEnd> end() const;

  // The granted ones.
  const LeaseTerms& terms() const;
  const std::string& provider() const { return clients_.front()->provider(); }
  const std::string& server() const;

  // Ends calls under way as CANCELLED, gives the lease back, and returns its bill. If it has ended
  // by itself: how, and the bill. DEADLINE_EXCEEDED or UNAVAILABLE if the server does not say: then
  // the bill is with the server alone (invoker usage). FAILED_PRECONDITION the second time. Blocks
  // until the executors have ended, for 20 seconds at most. Not from a CallDone.
  absl::StatusOr<LeaseEnd> Release();

 private:
  friend class ClientGroup;  // its places_
  Lease(std::shared_ptr<ClientLease> held, std::vector<std::unique_ptr<Client>> clients);
  absl::StatusOr<LeaseEnd> ReleaseWithin(absl::Duration limit);

  const std::shared_ptr<ClientLease> held_;
  const std::vector<std::unique_ptr<Client>> clients_;
  const std::shared_ptr<StorePlaces> places_;  // for data that is stored
  std::atomic<bool> released_{false};
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_LEASE_H_
