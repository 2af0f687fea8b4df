#include "src/invoke/client_group.h"

#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/invoke/call_deadline.h"
#include "src/invoke/connection.h"

namespace invoker {
namespace {

struct PendingCall {
  std::shared_ptr<ExecutorLoads> loads;
  CallDone done;
};

Bytes AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
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
                         std::vector<std::unique_ptr<Lease>> leases, std::vector<Client*> clients)
    : owned_(std::move(owned)),
      leases_(std::move(leases)),
      clients_(std::move(clients)),
      loads_(std::make_shared<ExecutorLoads>(clients_.size())),
      access_(std::make_shared<Access>()) {}

ClientGroup::~ClientGroup() {
  loads_->set_on_lost(nullptr);
  access_->Shut();
  {
    // All calls end before anybody is waited for: a callback of one executor's may be waiting for
    // another's room, to try a call again.
    absl::MutexLock lock(&functions_mutex_);
    for (Client* client : clients_) {
      client->connection().driver()->Fail(absl::CancelledError("the group has been closed"));
    }
  }
  reconnector_.reset();
  for (const std::unique_ptr<Client>& client : owned_) client->Close();
  for (size_t i = owned_.size(); i < clients_.size(); ++i) clients_[i]->connection().EndCalls();
  access_->AwaitNobody();
}

// What is lost from now on, or has been already, is connected to again.
void ClientGroup::Reconnect(const ClientOptions& options) {
  replaced_.resize(owned_.size());
  std::vector<std::string> servers;
  for (const std::unique_ptr<Client>& client : owned_) servers.push_back(client->server());
  reconnector_ = std::make_unique<Reconnector>(
      std::move(servers), options, loads_, [this](size_t executor, std::unique_ptr<Client> client) {
        return Replace(executor, std::move(client));
      });
  loads_->set_on_lost([raw = reconnector_.get()](size_t executor) { raw->Lost(executor); });
  for (size_t i = 0; i < owned_.size(); ++i) Watch(i);
}

// So that a loss is known before a call finds it out.
void ClientGroup::Watch(size_t executor) {
  owned_[executor]->connection().set_on_ended(
      [loads = loads_, executor](const absl::Status& reason) { loads->Lose(executor, reason); });
}

// On the reconnector's thread, while no call uses the executor.
absl::Status ClientGroup::Replace(size_t executor, std::unique_ptr<Client> client) {
  {
    absl::MutexLock lock(&functions_mutex_);
    std::vector<RemoteFunction> found;
    for (const std::shared_ptr<GroupFunctionIds>& function : functions_) {
      absl::StatusOr<RemoteFunction> one = client->Function(function->name);
      if (!one.ok()) return one.status();
      found.push_back(*std::move(one));
    }
    for (size_t i = 0; i < functions_.size(); ++i) {
      functions_[i]->at[executor] = std::move(found[i]);
    }
    // What the old one still hears is not this one's.
    owned_[executor]->connection().set_on_ended(nullptr);
    owned_[executor].swap(client);
    clients_[executor] = owned_[executor].get();
  }
  loads_->Restore(executor);
  Watch(executor);
  // Waits for callbacks of the old one, which may wait for the group.
  client->Close();
  replaced_[executor] = std::move(client);
  return absl::OkStatus();
}

absl::StatusOr<GroupFunction> ClientGroup::Function(absl::string_view name) const {
  absl::MutexLock lock(&functions_mutex_);
  for (const std::shared_ptr<GroupFunctionIds>& function : functions_) {
    if (function->name == name) return GroupFunction(function);
  }
  auto ids = std::make_shared<GroupFunctionIds>();
  ids->name = std::string(name);
  for (size_t i = 0; i < clients_.size(); ++i) {
    absl::StatusOr<RemoteFunction> function = clients_[i]->Function(name);
    if (!function.ok()) {
      return absl::Status(function.status().code(),
                          absl::StrCat("executor ", i, " of ", clients_.size(), ", at ",
                                       clients_[i]->server(), ": ", function.status().message()));
    }
    ids->at.push_back(*std::move(function));
  }
  functions_.push_back(ids);
  return GroupFunction(std::move(ids));
}

absl::StatusOr<Response> ClientGroup::Invoke(const GroupFunction& function, Bytes input,
                                             const CallOptions& options) {
  if (ABSL_PREDICT_FALSE(options.retry != 0)) return InvokeAgain(function, input, options);
  const CallDeadline deadline(options.timeout);
  const CallOptions* mine = &options;
  CallOptions rest;  // of a further try
  while (true) {
    const absl::StatusOr<size_t> i = loads_->Begin();
    if (!i.ok()) return i.status();
    absl::StatusOr<Response> response = clients_[*i]->Invoke(function.ids_->at[*i], input, *mine);
    // One that was cancelled by its caller shows nothing.
    const bool lost = !response.ok() && ShowsLostExecutor(response.status()) &&
                      !(absl::IsCancelled(response.status()) && clients_[*i]->status().ok());
    if (lost) loads_->Lose(*i, response.status());
    loads_->End(*i);
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
  for (uint32_t tries = 0;; ++tries) {
    mine.timeout = deadline.left();
    absl::StatusOr<Response> response = Invoke(function, input, mine);
    if (response.ok() || tries == options.retry || !MayBeRetried(response.status()) ||
        left() == 0 || deadline.passed()) {
      return response;
    }
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
  uint32_t left = 0;  // further tries
  std::shared_ptr<Access> access;
};

void ClientGroup::InvokeAsync(const GroupFunction& function, Bytes input,
                              const CallOptions& options, CallDone done) {
  if (options.retry != 0) {
    auto call = std::make_shared<Retried>(function);
    call->options = options;
    call->done = std::move(done);
    call->input.assign(reinterpret_cast<const char*>(input.data()), input.size());
    call->deadline = CallDeadline(options.timeout);
    call->options.retry = 0;
    call->left = options.retry;
    call->access = access_;
    return StartAgain(call);
  }
  const auto pending = std::make_shared<PendingCall>(PendingCall{loads_, std::move(done)});
  const CallDeadline deadline(options.timeout);
  CallOptions mine = options;
  while (true) {
    const absl::StatusOr<size_t> i = loads_->Begin();
    if (!i.ok()) return pending->done(i.status());
    CallDone counted = [pending, executor = *i](absl::StatusOr<Response> response) {
      if (!response.ok() && ShowsLostExecutor(response.status())) {
        pending->loads->Lose(executor, response.status());
      }
      pending->loads->End(executor);
      pending->done(std::move(response));
    };
    const absl::Status status =
        clients_[*i]->StartCall(function.ids_->at[*i], input, mine, counted);
    if (status.ok()) return;
    const bool lost =
        ShowsLostExecutor(status) && !(absl::IsCancelled(status) && clients_[*i]->status().ok());
    if (lost) loads_->Lose(*i, status);
    loads_->End(*i);
    if (!lost || deadline.passed()) return pending->done(status);
    mine.timeout = deadline.left();
  }
}

void ClientGroup::StartAgain(const std::shared_ptr<Retried>& call) {
  call->options.timeout = call->deadline.left();
  InvokeAsync(call->function, AsBytes(call->input), call->options,
              [this, call](absl::StatusOr<Response> response) {
                bool again = !response.ok() && call->left > 0 && MayBeRetried(response.status()) &&
                             !call->deadline.passed();
                // The group may have gone.
                if (again && (again = call->access->Enter())) {
                  again = left() > 0;
                  if (again) {
                    --call->left;
                    StartAgain(call);
                  }
                  call->access->Leave();
                }
                if (!again) call->done(std::move(response));
              });
}

MapRun ClientGroup::StartMap(const GroupFunction& function, MapSource source, MapOptions options,
                             uint64_t total) {
  return MapRun(&clients_, function.ids_, loads_, std::move(source), total, std::move(options));
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
