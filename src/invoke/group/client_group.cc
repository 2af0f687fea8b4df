#include "invoker/client_group.h"

#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/invoke/client/call_starter.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/session/call_deadline.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {
namespace {

struct PendingCall {
  std::shared_ptr<ExecutorLoads> loads;
  CallDone done;
};

Bytes AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// One that was cancelled by its caller shows nothing.
bool ShowsLost(const Client& client, const absl::Status& status) {
  return ShowsLostExecutor(status) && !(absl::IsCancelled(status) && client.status().ok());
}

}  // namespace

// Lets callbacks of calls in, which may come when the group is about to go.
class ClientGroup::Access {
 public:
  bool Enter() {
    absl::MutexLock lock(&mutex_);
    if (shut_) return false;
    ++inside_;
    return true;
  }
  void Leave() {
    absl::MutexLock lock(&mutex_);
    --inside_;
  }
  void Shut() {
    absl::MutexLock lock(&mutex_);
    shut_ = true;
  }
  void AwaitNobody() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](uint32_t* inside) { return *inside == 0; }, &inside_));
  }

 private:
  absl::Mutex mutex_;
  bool shut_ = false;
  uint32_t inside_ = 0;
};

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Of(
    std::vector<std::unique_ptr<Client>> owned, std::vector<std::unique_ptr<Lease>> leases) {
  std::vector<Client*> clients;
  for (const std::unique_ptr<Client>& client : owned) clients.push_back(client.get());
  for (const std::unique_ptr<Lease>& lease : leases) {
    for (size_t i = 0; i < lease->size(); ++i) clients.push_back(&lease->executor(i));
  }
  if (clients.empty()) return absl::InvalidArgumentError("a group has one executor at least");
  return std::unique_ptr<ClientGroup>(
      new ClientGroup(std::move(owned), std::move(leases), std::move(clients)));
}

ClientGroup::ClientGroup(std::vector<std::unique_ptr<Client>> owned,
                         std::vector<std::unique_ptr<Lease>> leases,
                         const std::vector<Client*>& clients)
    : owned_(std::move(owned)),
      leases_(std::move(leases)),
      loads_(std::make_shared<ExecutorLoads>(clients)),
      access_(std::make_shared<Access>()),
      retired_(loads_) {}

ClientGroup::~ClientGroup() {
  loads_->set_on_lost(nullptr);
  access_->Shut();
  // All calls end before anybody is waited for: a callback of one executor's may be waiting for a
  // call of another's. Without the lock, since callbacks may run here.
  for (const std::shared_ptr<CallDriver>& driver : ShutAndListDrivers()) {
    driver->Fail(absl::CancelledError("the group has been closed"));
  }
  reconnector_.reset();
  deferred_.Stop();
  for (const std::unique_ptr<Client>& client : owned_) client->Close();
  for (size_t i = owned_.size(); i < size(); ++i) client(i).connection().EndCalls();
  access_->AwaitNobody();
}

// From now on there are no others.
std::vector<std::shared_ptr<CallDriver>> ClientGroup::ShutAndListDrivers() {
  absl::MutexLock lock(&functions_mutex_);
  closing_ = true;
  std::vector<std::shared_ptr<CallDriver>> drivers = retired_.drivers();
  for (size_t i = 0; i < size(); ++i) drivers.push_back(client(i).connection().driver());
  return drivers;
}

// What is lost from now on, or has been already, is connected to again.
absl::Status ClientGroup::Reconnect(const ClientOptions& options) {
  std::vector<std::string> servers;
  for (const std::unique_ptr<Client>& client : owned_) servers.push_back(client->server());
  reconnector_ = std::make_unique<Reconnector>(
      std::move(servers), options, [this](size_t executor, std::unique_ptr<Client> client) {
        return Replace(executor, std::move(client));
      });
  if (absl::Status status = reconnector_->Start(); !status.ok()) return status;
  loads_->set_on_lost([raw = reconnector_.get()](size_t executor) { raw->Lost(executor); });
  for (size_t i = 0; i < owned_.size(); ++i) Watch(loads_->session(i));
  return absl::OkStatus();
}

// So that a loss is known before a call finds it out.
void ClientGroup::Watch(ExecutorLoads::Session session) {
  session.client().connection().set_on_ended(
      [loads = loads_, session](const absl::Status& reason) { loads->Lose(session, reason); });
}

// On the reconnector's thread. Waits for no call: what is under way in the lost session goes on.
absl::Status ClientGroup::Replace(size_t executor, std::unique_ptr<Client> client) {
  absl::ReleasableMutexLock lock(&functions_mutex_);
  if (closing_) return absl::CancelledError("the group is being closed");
  std::vector<RemoteFunction> found;
  for (const std::shared_ptr<GroupFunctionIds>& function : functions_) {
    absl::StatusOr<RemoteFunction> one = client->Function(function->name());
    if (!one.ok()) return one.status();
    found.push_back(*std::move(one));
  }
  for (size_t i = 0; i < functions_.size(); ++i) functions_[i]->Set(executor, found[i]);
  const ExecutorLoads::Session old = loads_->session(executor);
  owned_[executor].swap(client);
  retired_.Add(old, std::move(client));
  const ExecutorLoads::Session session = loads_->Follow(executor, owned_[executor].get());
  lock.Release();
  Watch(session);
  return absl::OkStatus();
}

absl::StatusOr<GroupFunction> ClientGroup::Function(absl::string_view name) const {
  absl::MutexLock lock(&functions_mutex_);
  for (const std::shared_ptr<GroupFunctionIds>& function : functions_) {
    if (function->name() == name) return GroupFunction(function);
  }
  std::vector<RemoteFunction> found;
  for (size_t i = 0; i < size(); ++i) {
    absl::StatusOr<RemoteFunction> one = client(i).Function(name);
    if (!one.ok()) {
      return absl::Status(one.status().code(),
                          absl::StrCat("executor ", i, " of ", size(), ", at ", client(i).server(),
                                       ": ", one.status().message()));
    }
    found.push_back(*std::move(one));
  }
  functions_.push_back(std::make_shared<GroupFunctionIds>(std::string(name), found));
  return GroupFunction(functions_.back());
}

absl::StatusOr<Response> ClientGroup::Invoke(const GroupFunction& function, Bytes input,
                                             const CallOptions& options) {
  if (ABSL_PREDICT_FALSE(options.retry != 0)) return InvokeAgain(function, input, options);
  const CallDeadline deadline(options.timeout);
  const CallOptions* mine = &options;
  CallOptions rest;  // of a further try
  while (true) {
    const absl::StatusOr<ExecutorLoads::Session> session = loads_->Begin();
    if (!session.ok()) return session.status();
    const RemoteFunction* const remote = function.ids_->In(*session);
    if (ABSL_PREDICT_FALSE(remote == nullptr)) {
      loads_->End(*session);
      continue;
    }
    Client& client = session->client();
    absl::StatusOr<Response> response = client.Invoke(*remote, input, *mine);
    const bool lost = !response.ok() && ShowsLost(client, response.status());
    if (lost) loads_->Lose(*session, response.status());
    loads_->End(*session);
    if (!lost || GetCallFate(response.status()) != CallFate::kNotSent || deadline.passed()) {
      return response;
    }
    rest = options;
    rest.timeout = deadline.left();
    mine = &rest;
  }
}

absl::StatusOr<Response> ClientGroup::InvokeAgain(const GroupFunction& function, Bytes input,
                                                  const CallOptions& options) {
  const CallDeadline deadline(options.timeout);
  CallOptions mine = options;
  mine.retry = 0;
  bool maybe_executed = false;
  for (uint32_t tries = 0;; ++tries) {
    mine.timeout = deadline.left();
    absl::StatusOr<Response> response = Invoke(function, input, mine);
    if (response.ok()) return response;
    if (tries == options.retry || !MayBeRetried(response.status()) || left() == 0 ||
        deadline.passed()) {
      return AfterTries(response.status(), maybe_executed);
    }
    maybe_executed |= GetCallFate(response.status()) == CallFate::kMaybeExecuted;
  }
}

absl::StatusOr<Response> ClientGroup::Invoke(const GroupFunction& function, absl::string_view input,
                                             const CallOptions& options) {
  return Invoke(function, Bytes(reinterpret_cast<const std::byte*>(input.data()), input.size()),
                options);
}

// An asynchronous call that is tried again.
struct ClientGroup::Retried {
  explicit Retried(const GroupFunction& called) : function(called) {}

  GroupFunction function;
  CallOptions options;
  CallDone done;
  std::string input;
  CallDeadline deadline;
  uint32_t left = 0;            // further tries
  bool maybe_executed = false;  // by one of the tries
  std::shared_ptr<Access> access;

  void End(absl::StatusOr<Response> response) {
    if (!response.ok()) response = AfterTries(response.status(), maybe_executed);
    done(std::move(response));
  }
};

void ClientGroup::InvokeAsync(const GroupFunction& function, Bytes input,
                              const CallOptions& options, CallDone done) {
  if (options.retry != 0) return InvokeAsyncAgain(function, input, options, std::move(done));
  absl::Status status = Start(function, input, options, done);
  if (!status.ok()) done(std::move(status));
}

// If it returns an error, `done` has not been taken.
absl::Status ClientGroup::Start(const GroupFunction& function, Bytes input,
                                const CallOptions& options, CallDone& done) {
  const auto pending = std::make_shared<PendingCall>(PendingCall{loads_, std::move(done)});
  const CallDeadline deadline(options.timeout);
  CallOptions mine = options;
  absl::Status status;
  while (true) {
    const absl::StatusOr<ExecutorLoads::Session> session = loads_->Begin();
    status = session.status();
    if (!session.ok()) break;
    const RemoteFunction* const remote = function.ids_->In(*session);
    if (ABSL_PREDICT_FALSE(remote == nullptr)) {
      loads_->End(*session);
      continue;
    }
    CallDone counted = [pending, session = *session](absl::StatusOr<Response> response) {
      if (!response.ok() && ShowsLostExecutor(response.status())) {
        pending->loads->Lose(session, response.status());
      }
      pending->loads->End(session);
      pending->done(std::move(response));
    };
    Client& client = session->client();
    status = CallStarter::Start(client, *remote, input, mine, counted);
    if (status.ok()) return status;
    const bool lost = ShowsLost(client, status);
    if (lost) loads_->Lose(*session, status);
    loads_->End(*session);
    if (!lost || deadline.passed()) break;
    mine.timeout = deadline.left();
  }
  done = std::move(pending->done);
  return status;
}

void ClientGroup::InvokeAsyncAgain(const GroupFunction& function, Bytes input,
                                   const CallOptions& options, CallDone done) {
  auto call = std::make_shared<Retried>(function);
  call->options = options;
  call->done = std::move(done);
  call->input.assign(reinterpret_cast<const char*>(input.data()), input.size());
  call->deadline = CallDeadline(options.timeout);
  call->options.retry = 0;
  call->left = options.retry;
  call->access = access_;
  absl::Status status = StartTry(call, call->options);
  if (!status.ok()) call->End(std::move(status));
}

absl::Status ClientGroup::StartTry(const std::shared_ptr<Retried>& call,
                                   const CallOptions& options) {
  CallOptions mine = options;
  mine.timeout = call->deadline.left();
  CallDone ended = [this, call](absl::StatusOr<Response> response) {
    bool again = !response.ok() && call->left > 0 && MayBeRetried(response.status()) &&
                 !call->deadline.passed();
    // The group may have gone.
    if (again && (again = call->access->Enter())) {
      again = left() > 0;
      if (again) {
        --call->left;
        call->maybe_executed |= GetCallFate(response.status()) == CallFate::kMaybeExecuted;
        StartAgain(call);
      }
      call->access->Leave();
    }
    if (!again) call->End(std::move(response));
  };
  return Start(call->function, AsBytes(call->input), mine, ended);
}

// On whichever thread has brought the news.
void ClientGroup::StartAgain(const std::shared_ptr<Retried>& call) {
  if (std::optional<absl::Status> status = StartIfThereIsRoom(call, /*delivers=*/true)) {
    if (!status->ok()) call->End(*std::move(status));
    return;
  }
  const bool waits = deferred_.Add([this, call] {
    const std::optional<absl::Status> status = StartIfThereIsRoom(call, /*delivers=*/false);
    if (!status.has_value()) return false;
    if (!status->ok()) deferred_.End([call, status] { call->End(*status); });
    return true;
  });
  if (waits) return;
  call->End(WithFate(absl::ResourceExhaustedError("the session's windows have no room now, and "
                                                  "the system has no thread to wait for some"),
                     CallFate::kNotSent));
}

// Nothing if the call is to wait for room, and for that alone; if it cannot be started, why. A
// thread that `delivers` cannot tell whether there will be room: it may have to make some itself.
std::optional<absl::Status> ClientGroup::StartIfThereIsRoom(const std::shared_ptr<Retried>& call,
                                                            bool delivers) {
  if (call->deadline.passed()) {
    return WithFate(
        absl::DeadlineExceededError("the deadline passed while the call waited for room in the "
                                    "session's windows"),
        CallFate::kNotSent);
  }
  CallOptions options = call->options;
  // Asked when the call would have to wait.
  options.interrupted = [] { return true; };
  // Others' callbacks may wait for what this thread has yet to do.
  const CallDriver::CallbacksElsewhere elsewhere;
  absl::Status status = StartTry(call, options);
  if (status.ok()) return status;
  const bool full = absl::IsCancelled(status) || (delivers && absl::IsResourceExhausted(status));
  const bool interrupted = call->options.interrupted != nullptr && call->options.interrupted();
  if (!full || interrupted) return status;
  if (left() > 0) return std::nullopt;
  // The wait was this function's own, and no reason to end.
  status = loads_->status();
  if (status.ok()) return std::nullopt;
  return WithFate(std::move(status), CallFate::kNotSent);
}

MapRun ClientGroup::StartMap(const GroupFunction& function, MapSource source, MapOptions options,
                             uint64_t total) {
  return MapRun(function.ids_, loads_, std::move(source), total, std::move(options));
}

std::vector<absl::StatusOr<std::string>> ClientGroup::Map(const GroupFunction& function,
                                                          absl::Span<const std::string> inputs,
                                                          MapOptions options) {
  std::vector<absl::StatusOr<std::string>> results(
      inputs.size(), WithFate(absl::CancelledError("not called, since another item failed before"),
                              CallFate::kNotSent));
  // They are put where they belong as they come.
  options.ordered = false;
  size_t next = 0;
  const auto source = [&]() -> std::optional<absl::StatusOr<MapInput>> {
    if (next == inputs.size()) return std::nullopt;
    const std::string& input = inputs[next++];
    return MapInput(Bytes(reinterpret_cast<const std::byte*>(input.data()), input.size()));
  };
  MapRun run = StartMap(function, source, std::move(options), inputs.size());
  while (std::optional<MapResult> result = run.Next()) {
    if (result->response.ok()) {
      results[result->index] = std::string(result->response->text());
    } else {
      results[result->index] = result->response.status();
    }
  }
  return results;
}

std::vector<absl::StatusOr<bootstrap::LeaseEnd>> ClientGroup::Release() {
  std::vector<absl::StatusOr<bootstrap::LeaseEnd>> ends;
  for (const std::unique_ptr<Lease>& lease : leases_) {
    absl::StatusOr<bootstrap::LeaseEnd> end = lease->Release();
    if (!end.ok()) {
      end = absl::Status(end.status().code(),
                         absl::StrCat(lease->server(), ": ", end.status().message()));
    }
    ends.push_back(std::move(end));
  }
  return ends;
}

}  // namespace invoker
