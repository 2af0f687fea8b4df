#include "invoker/client_group.h"

#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/cluster/member_watch.h"
#include "src/code/upload_client.h"
#include "src/invoke/client/call_starter.h"
#include "src/invoke/client/stored_value.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/group/call_tries.h"
#include "src/invoke/group/deferred_calls.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/group/group_access.h"
#include "src/invoke/group/group_call.h"
#include "src/invoke/group/group_call_starter.h"
#include "src/invoke/group/group_function_ids.h"
#include "src/invoke/group/group_tries.h"
#include "src/invoke/group/leases/group_leases.h"
#include "src/invoke/group/leases/lease_replacer.h"
#include "src/invoke/group/member_connector.h"
#include "src/invoke/group/retired_clients.h"
#include "src/invoke/group/start_on_executor.h"
#include "src/invoke/session/call_deadline.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {
namespace {

constexpr char kHasCallback[] = "the call has a callback, which gets its result";

std::vector<Client*> PointersTo(const std::vector<std::shared_ptr<Client>>& clients) {
  std::vector<Client*> pointers;
  for (const std::shared_ptr<Client>& client : clients) pointers.push_back(client.get());
  return pointers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Of(
    std::vector<std::shared_ptr<Client>> clients, std::vector<std::shared_ptr<Lease>> leases) {
  return Make(std::move(clients), std::move(leases), 0);
}

absl::StatusOr<std::unique_ptr<ClientGroup>> ClientGroup::Make(
    std::vector<std::shared_ptr<Client>> clients, std::vector<std::shared_ptr<Lease>> leases,
    size_t most) {
  const size_t owned = clients.size();
  for (const std::shared_ptr<Lease>& lease : leases) {
    for (size_t i = 0; i < lease->size(); ++i) clients.emplace_back(lease, &lease->executor(i));
  }
  if (clients.empty()) return absl::InvalidArgumentError("a group has one executor at least");
  return std::unique_ptr<ClientGroup>(
      new ClientGroup(std::move(clients), owned, std::move(leases), most));
}

ClientGroup::ClientGroup(std::vector<std::shared_ptr<Client>> clients, size_t owned,
                         std::vector<std::shared_ptr<Lease>> leases, size_t most)
    : leased_(clients.size() - owned),
      leases_(std::make_unique<GroupLeases>(std::move(leases))),
      loads_(std::make_shared<ExecutorLoads>(PointersTo(clients), most)),
      access_(std::make_shared<GroupAccess>()),
      clients_(std::move(clients)),
      deferred_(std::make_unique<DeferredCalls>()),
      retired_(std::make_unique<RetiredClients>(loads_)) {}

ClientGroup::~ClientGroup() { Close(); }

size_t ClientGroup::size() const { return loads_->size(); }

size_t ClientGroup::left() const { return loads_->left(); }

Client& ClientGroup::client(size_t index) const { return loads_->client(index); }

uint32_t ClientGroup::calls(size_t index) const { return loads_->calls(index); }

absl::Status ClientGroup::status() const { return loads_->status(); }

void ClientGroup::Close() {
  {
    absl::MutexLock lock(&functions_mutex_);
    if (std::exchange(closing_, true)) return;
  }
  loads_->set_on_lost(nullptr);
  access_->Shut();
  // All calls end before anybody is waited for: a callback of one executor's may be waiting for a
  // call of another's. Without the lock, since callbacks may run here.
  for (const std::shared_ptr<CallDriver>& driver : ListDrivers()) {
    driver->Fail(absl::CancelledError("the group has been closed"));
  }
  // The watch tells the connector, and the replacer asks the watch.
  if (connector_ != nullptr) watch_.reset();
  connector_.reset();
  replacer_.reset();
  watch_.reset();
  deferred_->Stop();
  const size_t owned = size() - leased_;
  for (size_t i = 0; i < owned; ++i) client(i).Close();
  for (size_t i = owned; i < size(); ++i) client(i).connection().EndCalls();
  access_->AwaitNobody();
}

// All that there are; while the group is closing, no others come.
std::vector<std::shared_ptr<CallDriver>> ClientGroup::ListDrivers() {
  absl::MutexLock lock(&functions_mutex_);
  std::vector<std::shared_ptr<CallDriver>> drivers = retired_->drivers();
  for (size_t i = 0; i < size(); ++i) drivers.push_back(client(i).connection().driver());
  return drivers;
}

// What is lost from now on, or has been already, is connected to again, and so is what joins.
absl::Status ClientGroup::Follow(std::unique_ptr<cluster::MemberWatch> watch,
                                 std::unique_ptr<MemberConnector> connector) {
  connector_ = std::move(connector);
  if (absl::Status status = connector_->Start(); !status.ok()) return status;
  loads_->set_on_lost([raw = connector_.get()](size_t executor) { raw->Lost(executor); });
  for (size_t i = 0; i < size(); ++i) Watch(i);
  watch_ = std::move(watch);
  watch_->Follow([raw = connector_.get()](const std::vector<cluster::Member>& members) {
    raw->SetMembers(members);
  });
  return absl::OkStatus();
}

// So that a loss is known before a call finds it out.
void ClientGroup::Watch(size_t executor) {
  const ExecutorLoads::Session session = loads_->session(executor);
  session.client().connection().set_on_ended(
      [loads = loads_, session](const absl::Status& reason) { loads->Lose(session, reason); });
}

absl::StatusOr<std::vector<RemoteFunction>> ClientGroup::FindFunctions(const Client& client) const {
  std::vector<RemoteFunction> found;
  for (const std::shared_ptr<GroupFunctionIds>& function : functions_) {
    absl::StatusOr<RemoteFunction> one = client.Function(function->name());
    if (!one.ok()) return one.status();
    absl::Status same = CheckSignature(function->name(), one->signature(), function->signature());
    if (!same.ok()) return same;
    found.push_back(*std::move(one));
  }
  return found;
}

// On the connector's thread, or the replacer's. Waits for no call: what is under way in the lost
// session goes on.
absl::Status ClientGroup::Replace(size_t executor, std::shared_ptr<Client> client) {
  absl::ReleasableMutexLock lock(&functions_mutex_);
  if (closing_) return absl::CancelledError("the group is being closed");
  const absl::StatusOr<std::vector<RemoteFunction>> found = FindFunctions(*client);
  if (!found.ok()) return found.status();
  for (size_t i = 0; i < functions_.size(); ++i) functions_[i]->Set(executor, (*found)[i]);
  const ExecutorLoads::Session old = loads_->session(executor);
  retired_->Add(old, std::exchange(clients_[executor], std::move(client)));
  loads_->Follow(executor, clients_[executor].get());
  lock.Release();
  Watch(executor);
  return absl::OkStatus();
}

// On the connector's thread, which alone adds executors.
absl::StatusOr<size_t> ClientGroup::Add(std::shared_ptr<Client> client) {
  absl::ReleasableMutexLock lock(&functions_mutex_);
  if (closing_) return absl::CancelledError("the group is being closed");
  const absl::StatusOr<std::vector<RemoteFunction>> found = FindFunctions(*client);
  if (!found.ok()) return found.status();
  const size_t executor = size();
  if (executor < loads_->most()) {
    for (size_t i = 0; i < functions_.size(); ++i) functions_[i]->Set(executor, (*found)[i]);
  }
  const absl::StatusOr<ExecutorLoads::Session> session = loads_->Add(client.get());
  if (!session.ok()) return session.status();
  clients_.push_back(std::move(client));
  lock.Release();
  Watch(executor);
  return executor;
}

std::shared_ptr<Client> ClientGroup::ShareClient(size_t index) const {
  absl::MutexLock lock(&functions_mutex_);
  return clients_[index];
}

std::shared_ptr<Client> ClientGroup::ClientOf(uint64_t session) const {
  absl::MutexLock lock(&functions_mutex_);
  const auto found = std::find_if(
      clients_.begin(), clients_.end(),
      [session](const std::shared_ptr<Client>& one) { return one->session() == session; });
  return found == clients_.end() ? nullptr : *found;
}

absl::StatusOr<GroupFunction> ClientGroup::Function(absl::string_view name) const {
  absl::MutexLock lock(&functions_mutex_);
  for (const std::shared_ptr<GroupFunctionIds>& function : functions_) {
    if (function->name() == name) return GroupFunction(function);
  }
  auto ids = std::shared_ptr<GroupFunctionIds>();
  // A lost one gets it with its next session, if it has one.
  const bool skip_lost = left() > 0;
  for (size_t i = 0; i < size(); ++i) {
    if (skip_lost && loads_->session(i).lost()) continue;
    absl::StatusOr<RemoteFunction> one = client(i).Function(name);
    absl::Status status = one.status();
    if (one.ok() && ids != nullptr) {
      status = CheckSignature(name, one->signature(), ids->signature());
    }
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("executor ", i, " of ", size(), ", at ",
                                                      client(i).server(), ": ", status.message()));
    }
    if (ids == nullptr) {
      ids = std::make_shared<GroupFunctionIds>(std::string(name), one->signature(), loads_->most());
    }
    ids->Set(i, *one);
  }
  if (ids == nullptr) return loads_->status();
  functions_.push_back(std::move(ids));
  return GroupFunction(functions_.back());
}

absl::StatusOr<Response> ClientGroup::Invoke(const GroupFunction& function, const CallInput& input,
                                             const CallOptions& options) {
  if (ABSL_PREDICT_FALSE(options.retry != 0)) return InvokeAgain(function, input, options);
  absl::Status status = CallStarter::CheckForAnyClient(input, options);
  if (ABSL_PREDICT_FALSE(!status.ok())) return status;
  const CallDeadline deadline(options.timeout);
  const CallOptions* mine = &options;
  CallOptions rest;  // a further try's
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
    const bool lost = !response.ok() && ShowsLostExecutor(client, response.status());
    if (lost) loads_->Lose(*session, response.status());
    loads_->End(*session);
    if (!lost || !MayMove(response.status()) || deadline.passed()) return response;
    rest = options;
    rest.timeout = deadline.left();
    mine = &rest;
  }
}

absl::StatusOr<Response> ClientGroup::InvokeAgain(const GroupFunction& function,
                                                  const CallInput& input,
                                                  const CallOptions& options) {
  CallTries tries(options);
  while (true) {
    absl::StatusOr<Response> response = Invoke(function, input, tries.options());
    if (response.ok()) return response;
    if (!tries.TakeNext(response.status(), *loads_)) return tries.StatusAfter(response.status());
  }
}

GroupFuture ClientGroup::InvokeAsync(const GroupFunction& function, const CallInput& input,
                                     const CallOptions& options, CallDone done) {
  if (done) {
    absl::StatusOr<GroupFuture> call = GroupCallStarter::Start(
        *this, function, input, /*caller_keeps_input=*/false, options, done);
    if (call.ok()) return *std::move(call);
    done(call.status());
    return GroupFuture(absl::FailedPreconditionError(kHasCallback));
  }
  auto tries = std::make_unique<GroupTries>(loads_, access_, function.ids_, options);
  absl::Status status = tries->Start(input);
  return status.ok() ? GroupFuture(std::move(tries)) : GroupFuture(std::move(status));
}

absl::StatusOr<GroupFuture> GroupCallStarter::Start(ClientGroup& group,
                                                    const GroupFunction& function,
                                                    const CallInput& input, bool caller_keeps_input,
                                                    const CallOptions& options, CallDone& done) {
  auto call = std::make_shared<GroupCall>(
      GroupCall::Group{group.loads_, group.access_, group.deferred_.get()}, function.ids_, options);
  absl::Status status = call->Start(input, caller_keeps_input, done);
  if (!status.ok()) return status;
  return GroupFuture(std::move(call));
}

const std::string& GroupFunction::name() const { return ids_->name(); }

const std::string& GroupFunction::signature() const { return ids_->signature(); }

GroupFuture::GroupFuture(absl::Status status) : status_(std::move(status)) {}
GroupFuture::GroupFuture(std::unique_ptr<GroupTries> tries) : tries_(std::move(tries)) {}
GroupFuture::GroupFuture(std::shared_ptr<GroupCall> call) : call_(std::move(call)) {}
GroupFuture::GroupFuture(GroupFuture&&) noexcept = default;
GroupFuture& GroupFuture::operator=(GroupFuture&&) noexcept = default;
GroupFuture::~GroupFuture() = default;

absl::StatusOr<Response> GroupFuture::Get() {
  if (tries_ != nullptr) return std::exchange(tries_, nullptr)->Get();
  if (!status_.ok()) return status_;
  return absl::FailedPreconditionError(
      call_ != nullptr ? kHasCallback : "the future's result has been taken already");
}

bool GroupFuture::Wait(absl::Duration limit) { return tries_ == nullptr || tries_->Wait(limit); }

bool GroupFuture::Cancel() {
  if (call_ != nullptr) return call_->Cancel();
  return tries_ != nullptr && tries_->Cancel();
}

absl::StatusOr<UntypedReference> ClientGroup::PutBytes(absl::string_view type, size_t bytes,
                                                       absl::FunctionRef<void(std::byte*)> write,
                                                       const CallOptions& options) {
  if (leased_ != size()) {
    return absl::FailedPreconditionError(
        "only the executors of leases store data, and the group has shared ones");
  }
  std::vector<std::shared_ptr<StorePlaces>> places;
  for (const std::shared_ptr<Lease>& lease : leases_->List()) places.push_back(lease->places_);
  absl::StatusOr<std::shared_ptr<StoredValue>> value =
      StoredValue::Put(std::move(places), std::string(type), bytes, write, options);
  if (!value.ok()) return value.status();
  return UntypedReference(*std::move(value));
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

std::vector<absl::StatusOr<LeaseEnd>> ClientGroup::Release() {
  if (replacer_ != nullptr) replacer_->Stop();
  return leases_->Release();
}

absl::StatusOr<LeaseEnd> ClientGroup::ReleaseAll() { return GroupLeases::InOne(Release()); }

std::vector<std::shared_ptr<Lease>> ClientGroup::leases() const { return leases_->List(); }

absl::Status ClientGroup::Upload(const std::string& path, absl::Duration timeout) {
  absl::StatusOr<std::string> code = ReadCode(path);
  if (!code.ok()) return code.status();
  return UploadCode(*code, CodeKind::kLibrary, path.substr(path.rfind('/') + 1), timeout);
}

absl::Status ClientGroup::UploadCode(absl::string_view code, CodeKind kind, absl::string_view name,
                                     absl::Duration timeout) {
  return leases_->UploadCode(code, kind, name, timeout);
}

std::vector<std::string> ClientGroup::FunctionNames() const { return leases_->FunctionNames(); }

absl::StatusOr<ResourceUsage> ClientGroup::Usage() const { return leases_->Usage(); }

}  // namespace invoker
