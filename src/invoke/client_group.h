// Several executors, of one worker or of several, called as one.
//
//   auto group = invoker::ClientGroup::Connect("10.0.0.7:7000,10.0.0.8:7000");
//   absl::StatusOr<invoker::GroupFunction> sum = (*group)->Function("sum");
//   absl::StatusOr<invoker::Response> response = (*group)->Invoke(*sum, "1 2 3");
//   std::vector<absl::StatusOr<std::string>> sums = (*group)->Map(*sum, inputs);
//
// A call goes to the executor with the fewest calls under way. Calls are at-most-once: what was
// sent to an executor that is lost fails and says so (GetCallFate), and the executor is called no
// more; what could not be sent to it, or what its worker refused because it drains, goes to another
// one. Failures of other kinds are their
// caller's. Who wants the former to be tried on another executor too says so for each call, with
// CallOptions::retry, and gets at-least-once.
//
// To the worker of a shared executor that was lost the group connects again in the background, as
// soon as it is there, and the executor is called again then: in a new session, with functions
// found anew by their names. A group of one server can so outlive its restarts; calls in between
// fail at once. A lease that is lost stays so, since what its executors had in memory is gone,
// unless LeaseOptions::replace says otherwise.
//
// A group of a cluster follows it: it connects to servers that join, also while a map runs, and a
// server that has left is called for as long as its session lives, and not connected to again.

#ifndef INVOKER_SRC_INVOKE_CLIENT_GROUP_H_
#define INVOKER_SRC_INVOKE_CLIENT_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "invoker/client.h"
#include "invoker/export.h"
#include "invoker/lease.h"
#include "invoker/map_run.h"

namespace invoker {

class CallDriver;
class DeferredCalls;
class ExecutorLoads;
class GroupAccess;
class GroupCall;
class GroupFunctionIds;
class GroupLeases;
class GroupTries;
class LeaseReplacer;
class MemberConnector;
class RetiredClients;

namespace cluster {
class MemberWatch;
}  // namespace cluster

// A function that every executor of a group has. A value; valid for the group that returned it,
// also after it has connected again.
class INVOKER_EXPORT GroupFunction {
 public:
  const std::string& name() const;
  // RemoteFunction's.
  const std::string& signature() const;

 private:
  friend class ClientGroup;
  friend class GroupCallStarter;
  explicit GroupFunction(std::shared_ptr<const GroupFunctionIds> ids) : ids_(std::move(ids)) {}

  std::shared_ptr<const GroupFunctionIds> ids_;
};

// A call of a group that is under way. Movable; one thread at a time. May outlive the group, which
// ends its calls.
class INVOKER_EXPORT GroupFuture {
 public:
  GroupFuture(GroupFuture&&) noexcept;
  GroupFuture& operator=(GroupFuture&&) noexcept;
  // Abandons the result, not the call. Waits as ~Future does.
  ~GroupFuture();

  // Future's. If the call is to be tried again (CallOptions::retry), Get and Wait try it, on their
  // thread.
  absl::StatusOr<Response> Get();
  bool Wait(absl::Duration limit);
  // Future::Cancel, also for a call with a CallDone once the group has gone. The call is not tried
  // again.
  bool Cancel();

 private:
  friend class ClientGroup;
  friend class GroupCallStarter;
  explicit GroupFuture(absl::Status status);
  explicit GroupFuture(std::unique_ptr<GroupTries> tries);
  explicit GroupFuture(std::shared_ptr<GroupCall> call);

  absl::Status status_;                // why it has never started
  std::unique_ptr<GroupTries> tries_;  // nullptr: taken, or it has never started
  std::shared_ptr<GroupCall> call_;    // a call with a CallDone
};

// All methods but the destructor may be called from any thread.
class INVOKER_EXPORT ClientGroup {
 public:
  using FunctionHandle = GroupFunction;
  using Input = CallInput;

  // Sessions with the shared executors of the servers in "HOST:PORT,HOST:PORT": so many on each; 0:
  // as many as the server has executors. "file:///PATH" names a file with a server on each line,
  // which is read again when it changes, and "etcd://HOST:PORT,HOST:PORT/NAME" a cluster
  // (docs/guide/cluster.md). Blocks as Client::Connect does, for all servers at the same time, and
  // for a cluster until it has a member, for connect_timeout at most. Starts once one server is
  // there: those that are missing are connected to as soon as they are. Fails if none is, or if one
  // of a list fails for another reason; without options.reconnect, if any fails, and then the group
  // does not follow its cluster either.
  static absl::StatusOr<std::unique_ptr<ClientGroup>> Connect(absl::string_view servers,
                                                              const ClientOptions& options = {},
                                                              size_t sessions_each = 0);

  // Leases on those servers, of options.executors in all: each executor where the most cores are
  // free, as far as servers of a cluster have published it. What one refuses the others are asked
  // for. Blocks as Lease::Acquire does. Fails, and holds none, if there are not enough together
  // (options.at_least). NOT_FOUND: no server has options.labels. If it is
  // to wait in line (options.wait, for all leases together), it takes one lease after the other, in
  // the order of the servers' names as they are written: clients that write them alike never wait
  // for one another. What it has got is held, and paid for, while it waits for the rest.
  static absl::StatusOr<std::unique_ptr<ClientGroup>> Acquire(absl::string_view servers,
                                                              const LeaseOptions& options);

  // Makes a group of what has been opened already: at least one executor. Nobody else closes it
  // before the group has been closed.
  static absl::StatusOr<std::unique_ptr<ClientGroup>> Of(
      std::vector<std::shared_ptr<Client>> clients, std::vector<std::shared_ptr<Lease>> leases);

  // Close, and lets go of the leases, which end if nobody else keeps them. Runs of Map must have
  // gone.
  ~ClientGroup();
  ClientGroup(const ClientGroup&) = delete;
  ClientGroup& operator=(const ClientGroup&) = delete;

  // Executors so far. In a group that follows a cluster their places stay when they have gone,
  // until others take them; left() counts those that can be called.
  size_t size() const;
  // Executors that have not been lost. Once it says that one is back, client() is the new one.
  size_t left() const;
  // At any time, also while the group connects again. A client that has been lost, and in whose
  // place the group has connected anew, stays until that one has been replaced too; it is closed as
  // soon as the callbacks of its calls have run.
  Client& client(size_t index) const;
  // The client that the executor has now. The group closes it, whatever else keeps it.
  std::shared_ptr<Client> ShareClient(size_t index) const ABSL_LOCKS_EXCLUDED(functions_mutex_);
  // The client of the session that a response came in (Response::session), while it is one of the
  // group's; else nullptr.
  std::shared_ptr<Client> ClientOf(uint64_t session) const ABSL_LOCKS_EXCLUDED(functions_mutex_);
  // Calls under way on one of them, as far as they were made through the group, and with the
  // client that it has now.
  uint32_t calls(size_t index) const;
  // Those that there are now: with LeaseOptions::replace, others may come.
  std::vector<std::shared_ptr<Lease>> leases() const;

  // OK while an executor is left, or why the last one was lost.
  absl::Status status() const;

  // NOT_FOUND if an executor does not have it: which one, and what it has. INVALID_ARGUMENT if two
  // executors have it with two signatures.
  absl::StatusOr<GroupFunction> Function(absl::string_view name) const;
  // Client's.
  template <typename Signature>
  absl::StatusOr<TypedFunction<Signature, ClientGroup>> Function(absl::string_view name) {
    absl::StatusOr<GroupFunction> function = Function(name);
    if (!function.ok()) return function.status();
    using Typed = TypedFunction<Signature, ClientGroup>;
    absl::Status same = CheckSignature(name, function->signature(), Typed::Signature());
    if (!same.ok()) return same;
    return Typed(this, *std::move(function));
  }

  // Calls and waits. Input and output are as for Client, but for what belongs to one client: a
  // Buffer or a RegisteredWindow is INVALID_ARGUMENT.
  absl::StatusOr<Response> Invoke(const GroupFunction& function, const CallInput& input,
                                  const CallOptions& options = kDefaultCallOptions);

  // Client::InvokeAsync; `done` may also run on a thread of the group's. Input that does not fit in
  // the window of every executor is the call's until it has ended. Without `done`, the call counts
  // as under way until its result has been waited for, or its future has gone.
  GroupFuture InvokeAsync(const GroupFunction& function, const CallInput& input,
                          const CallOptions& options = kDefaultCallOptions,
                          CallDone done = nullptr);

  // Lease::Upload and Lease::UploadCode, with all leases; and with those that come in the place of
  // lost ones. The error is that of the first that has not got it.
  absl::Status Upload(const std::string& path, absl::Duration timeout = absl::Minutes(1));
  absl::Status UploadCode(absl::string_view code, CodeKind kind, absl::string_view name,
                          absl::Duration timeout = absl::Minutes(1));
  // The functions that all leases have.
  std::vector<std::string> FunctionNames() const;
  // Lease::Usage, of all leases that are left together.
  absl::StatusOr<ResourceUsage> Usage() const;

  // Lease::Put, with all leases: the reference is for calls of this group. FAILED_PRECONDITION if
  // other executors than those of leases are in it.
  template <typename T>
  absl::StatusOr<Reference<T>> Put(const T& array,
                                   const CallOptions& options = kDefaultCallOptions) {
    return values_internal::PutArray(this, array, options);
  }
  absl::StatusOr<UntypedReference> PutBytes(absl::string_view type, size_t bytes,
                                            absl::FunctionRef<void(std::byte*)> write,
                                            const CallOptions& options = kDefaultCallOptions);

  // Starts to call `function` with each input of the source. `total` is for on_progress alone; 0:
  // not known.
  MapRun StartMap(const GroupFunction& function, MapSource source, MapOptions options = {},
                  uint64_t total = 0);

  // Calls `function` with each input and waits for all. Results are the inputs' in their order
  // (options.ordered is of no effect); after stop_on_error, those of inputs that were not taken any
  // more are CANCELLED.
  std::vector<absl::StatusOr<std::string>> Map(const GroupFunction& function,
                                               absl::Span<const std::string> inputs,
                                               MapOptions options = {});

  // Ends calls under way with CANCELLED, and the sessions: Client::Close of each, but the executors
  // of a lease only end their calls. Blocks until callbacks that run have returned. Runs of Map
  // must have gone. Again, or meanwhile: returns at once.
  void Close() ABSL_LOCKS_EXCLUDED(functions_mutex_);

  // Releases every lease: Lease::Release of each, with its server named in errors.
  std::vector<absl::StatusOr<LeaseEnd>> Release();
  // The same, with one bill for all. The cause is kReleased, unless all have ended by themselves;
  // then it is the first one's. An error only if no bill could be had.
  absl::StatusOr<LeaseEnd> ReleaseAll();

 private:
  friend class GroupCallStarter;

  ClientGroup(std::vector<std::shared_ptr<Client>> clients, size_t owned,
              std::vector<std::shared_ptr<Lease>> leases, size_t most);

  // The same, in a group with room for so many executors.
  static absl::StatusOr<std::unique_ptr<ClientGroup>> Make(
      std::vector<std::shared_ptr<Client>> clients, std::vector<std::shared_ptr<Lease>> leases,
      size_t most);
  absl::Status Follow(std::unique_ptr<cluster::MemberWatch> watch,
                      std::unique_ptr<MemberConnector> connector);
  absl::Status ReplaceLost(std::unique_ptr<cluster::MemberWatch> watch,
                           const LeaseOptions& options);
  void Watch(size_t executor);
  absl::StatusOr<std::vector<RemoteFunction>> FindFunctions(const Client& client) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(functions_mutex_);
  absl::Status Replace(size_t executor, std::shared_ptr<Client> client)
      ABSL_LOCKS_EXCLUDED(functions_mutex_);
  absl::StatusOr<size_t> Add(std::shared_ptr<Client> client) ABSL_LOCKS_EXCLUDED(functions_mutex_);
  std::vector<std::shared_ptr<CallDriver>> ListDrivers() ABSL_LOCKS_EXCLUDED(functions_mutex_);
  absl::StatusOr<Response> InvokeAgain(const GroupFunction& function, const CallInput& input,
                                       const CallOptions& options);

  const size_t leased_;  // executors of leases, which come last
  const std::unique_ptr<GroupLeases> leases_;
  const std::shared_ptr<ExecutorLoads> loads_;  // with the clients, the leases' too
  const std::shared_ptr<GroupAccess> access_;
  mutable absl::Mutex functions_mutex_;
  std::vector<std::shared_ptr<Client>> clients_ ABSL_GUARDED_BY(functions_mutex_);  // by executor
  // All that have been asked for.
  mutable std::vector<std::shared_ptr<GroupFunctionIds>> functions_
      ABSL_GUARDED_BY(functions_mutex_);
  bool closing_ ABSL_GUARDED_BY(functions_mutex_) = false;  // no client is put in place any more
  const std::unique_ptr<DeferredCalls> deferred_;
  const std::unique_ptr<RetiredClients> retired_;
  std::unique_ptr<cluster::MemberWatch> watch_;  // for the next two; else nullptr
  std::unique_ptr<MemberConnector> connector_;   // nullptr: sessions that are lost stay so
  std::unique_ptr<LeaseReplacer> replacer_;      // nullptr: leases that are lost stay so
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_GROUP_H_
