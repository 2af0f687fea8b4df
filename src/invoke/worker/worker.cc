#include "src/invoke/worker/worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invoker/version.h"
#include "src/invoke/fabrics/fabric_identity.h"
#include "src/invoke/fabrics/host_identity.h"
#include "src/invoke/fabrics/negotiation.h"
#include "src/invoke/worker/session_closing.h"
#include "src/transport/discovery/discovery.h"

namespace invoker {
namespace {

constexpr uint32_t kMaxExecutors = 1024;

// Unique for the life of the worker, as an executor's epochs are.
uint64_t HandleOf(uint32_t executor, Executor::SessionKey key) {
  return uint64_t{executor + 1} << 48 | uint64_t{key.number} << 32 | key.epoch;
}

bootstrap::FabricOffer MakeOffer(const transport::FabricChoice& fabric) {
  const fi_info& info = *fabric.info;
  bootstrap::FabricOffer offer;
  offer.identity = IdentityOf(fabric.profile, info);
  // It only selects the client's interface; the others' addresses are nothing to route by.
  if (fabric.profile.address_is_ip && info.src_addr != nullptr) {
    offer.source_address.assign(static_cast<const char*>(info.src_addr), info.src_addrlen);
  }
  offer.same_host_only = fabric.profile.same_host_only;
  return offer;
}

// What clients get of a function's documentation.
constexpr size_t kMostDocBytes = 256;

// By id.
std::vector<bootstrap::FunctionInfo> InfosOf(const FunctionRegistry& functions) {
  std::vector<bootstrap::FunctionInfo> infos;
  infos.reserve(functions.size());
  for (const FunctionEntry& entry : functions.entries()) {
    infos.push_back({entry.name, entry.doc.substr(0, kMostDocBytes), entry.signature});
  }
  return infos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options,
                                                      FunctionRegistry functions) {
  if (options.executors < 1 || options.executors > kMaxExecutors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a worker has 1 to ", kMaxExecutors, " executors; ", options.executors, " were asked for"));
  }
  if (absl::Status status = WindowGeometry::Make(options.window_bytes).status(); !status.ok()) {
    return status;
  }
  absl::StatusOr<ServedFabrics> served = SelectServedFabrics(
      options.providers, options.addresses, options.window_bytes, options.self_test);
  if (!served.ok()) return served.status();
  const bool by_name = served->by_name;
  std::unique_ptr<Worker> worker(new Worker(options, functions, *std::move(served)));
  if (!worker->incarnation_.ok()) return worker->incarnation_.status();
  std::shared_ptr<transport::QuarantineTotal> total = options.executor.quarantine_total;
  if (total == nullptr) total = std::make_shared<transport::QuarantineTotal>();
  const auto note = [raw = worker.get()](absl::string_view text) { raw->Note(text); };
  for (uint32_t index = 0; index < options.executors; ++index) {
    std::vector<transport::FabricChoice> fabrics;
    for (const transport::FabricChoice& fabric : worker->served_.fabrics) {
      absl::StatusOr<transport::FabricChoice> copy = transport::CopyOf(fabric);
      if (!copy.ok()) return copy.status();
      fabrics.push_back(*std::move(copy));
    }
    ExecutorOptions executor_options = options.executor;
    executor_options.index = index;
    executor_options.bulk_budget = worker->bulk_budget_;
    executor_options.quarantine_total = total;
    executor_options.on_endpoint = note;
    executor_options.on_unheard = [raw = worker.get()] { raw->endpoint_watch_.Doubt(); };
    absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Start(
        std::move(fabrics), &functions, executor_options,
        [raw = worker.get(), index](Executor::SessionKey key, const absl::Status& status) {
          raw->OnSessionFailed(index, key, status);
        });
    if (!executor.ok()) return executor.status();
    worker->executors_.push_back(*std::move(executor));
  }
  for (size_t fabric = 0; by_name && fabric < worker->served_.fabrics.size(); ++fabric) {
    if (absl::Status status = worker->executors_.front()->OpenFabric(fabric); !status.ok()) {
      return status;
    }
  }
  absl::Status watched = worker->endpoint_watch_.Start(worker->executors_, note);
  if (!watched.ok()) return watched;
  return worker;
}

Worker::Worker(const WorkerOptions& options, FunctionRegistry functions, ServedFabrics served)
    : options_(options),
      served_(std::move(served)),
      bulk_budget_(std::make_shared<BulkBudget>(options.bulk_bytes)),
      late_(options.executors),
      functions_(std::move(functions)),
      endpoint_watch_(options.endpoint_watch) {}

Worker::~Worker() { Stop(absl::Seconds(1)); }

void Worker::set_on_session_closed(SessionClosed callback) {
  absl::MutexLock lock(&mutex_);
  on_session_closed_ = std::move(callback);
}

void Worker::set_on_downgraded(Downgraded callback) {
  absl::MutexLock lock(&mutex_);
  on_downgraded_ = std::move(callback);
}

void Worker::set_on_endpoint(EndpointNote callback) {
  absl::MutexLock lock(&mutex_);
  on_endpoint_ = std::move(callback);
}

void Worker::Note(absl::string_view note) {
  EndpointNote callback;
  {
    absl::MutexLock lock(&mutex_);
    callback = on_endpoint_;
  }
  if (callback) callback(note);
}

bootstrap::WorkerInfo Worker::Info() const {
  bootstrap::WorkerInfo info;
  info.software_version = Version();
  for (const transport::FabricChoice& fabric : served_.fabrics) {
    info.fabrics.push_back(MakeOffer(fabric));
  }
  info.unserved = served_.unserved;
  info.notification = options_.notification;
  info.window_bytes = options_.window_bytes;
  info.executors = static_cast<uint32_t>(executors_.size());
  info.host_identity = HostIdentity();
  info.incarnation = *incarnation_;
  info.data_auth = options_.data_auth;
  absl::MutexLock lock(&mutex_);
  info.functions = InfosOf(functions_);
  return info;
}

absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Worker::AddFunctions(
    std::vector<FunctionEntry> entries) {
  absl::MutexLock adding(&adding_mutex_);
  FunctionRegistry grown;
  {
    absl::MutexLock lock(&mutex_);
    grown = functions_;
  }
  // What is refused is refused here: the executors have the same.
  if (absl::Status status = grown.AddAll(entries); !status.ok()) return status;
  for (const std::unique_ptr<Executor>& executor : executors_) {
    if (absl::Status status = executor->AddFunctions(entries); !status.ok()) return status;
  }
  absl::MutexLock lock(&mutex_);
  functions_ = std::move(grown);
  return InfosOf(functions_);
}

Executor* Worker::LeastLoaded(size_t fabric) {
  Executor* best = nullptr;
  for (const std::unique_ptr<Executor>& executor : executors_) {
    if (!executor->healthy(fabric)) continue;
    const auto load = [](const Executor& of) {
      return std::make_pair(of.live_sessions(), of.busy());
    };
    if (best == nullptr || load(*executor) < load(*best)) best = executor.get();
  }
  return best;
}

absl::StatusOr<size_t> Worker::FindFabric(absl::string_view provider) const {
  for (size_t fabric = 0; fabric < served_.fabrics.size(); ++fabric) {
    if (served_.fabrics[fabric].profile.provider == provider) return fabric;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the worker does not serve provider \"", provider, "\""));
}

void Worker::ReportDowngrade(size_t fabric, absl::string_view reason) {
  downgrades_.fetch_add(1, std::memory_order_relaxed);
  Downgraded callback;
  {
    absl::MutexLock lock(&mutex_);
    callback = on_downgraded_;
  }
  if (callback) callback(served_.fabrics[fabric].profile.provider, reason);
}

absl::StatusOr<bootstrap::OpenSessionReply> Worker::OpenSession(
    uint64_t lease, const bootstrap::OpenSessionRequest& request) {
  absl::StatusOr<size_t> fabric = FindFabric(request.fabric.provider);
  if (!fabric.ok()) return fabric.status();
  const transport::Profile& profile = served_.fabrics[*fabric].profile;
  absl::StatusOr<Notification> notification =
      NegotiateNotification(options_.notification, request.notification, profile.notification);
  if (!notification.ok()) return notification.status();
  Executor* executor = LeastLoaded(*fabric);
  if (executor == nullptr) {
    const std::string note = absl::StrCat(
        "every executor's endpoint of provider ", profile.provider,
        " has failed or keeps as many addresses of former sessions as it may, and each executor "
        "has ",
        EndpointSet::kMostOthers, " such endpoints already (see the server's log); ",
        profile.close_needs_quiet ? "" : "try again when sessions have ended, or ",
        "restart the server");
    Note(note);
    return absl::UnavailableError(note);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (draining_) return absl::UnavailableError("the worker is shutting down");
    ++opening_;
  }
  bootstrap::OpenSessionRequest agreed = request;
  agreed.data_auth = std::max(request.data_auth, options_.data_auth);
  const auto meter = std::make_shared<UsageMeter>();
  absl::StatusOr<bootstrap::OpenSessionReply> reply =
      executor->OpenSession(*fabric, agreed, *notification, meter);
  absl::Status status = reply.status();
  {
    absl::MutexLock lock(&mutex_);
    if (reply.ok()) {
      const Executor::SessionKey key = {reply->request_session, reply->epoch,
                                        static_cast<uint16_t>(*fabric)};
      reply->handle = HandleOf(reply->executor, key);
      if (const auto failed = failed_early_.find(reply->handle); failed != failed_early_.end()) {
        status = failed->second;
      } else {
        sessions_[reply->handle] = {lease, reply->executor, key, *notification};
        Bill& bill = bills_[lease];
        bill.Fold();
        bill.meters.push_back(meter);
        reply->functions = InfosOf(functions_);
      }
    }
    if (--opening_ == 0) failed_early_.clear();
  }
  if (!status.ok()) return status;
  if (!request.downgrade_reason.empty()) ReportDowngrade(*fabric, request.downgrade_reason);
  return reply;
}

absl::StatusOr<Worker::Session> Worker::FindSession(uint64_t lease, uint64_t handle) {
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(handle);
  if (found == sessions_.end() || found->second.lease != lease) {
    return absl::NotFoundError("the lease has no such session");
  }
  return found->second;
}

absl::Status Worker::SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                        absl::string_view reason) {
  absl::StatusOr<Session> session = FindSession(lease, handle);
  if (!session.ok()) return session.status();
  absl::Status status =
      NegotiateNotification(options_.notification, notification,
                            served_.fabrics[session->key.fabric].profile.notification)
          .status();
  if (!status.ok()) return status;
  status = executors_[session->executor]->SwitchNotification(session->key, notification);
  // A client also asks for what it has, to learn when the executor has taken a turn.
  if (!status.ok() || notification == session->notification) return status;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = sessions_.find(handle); found != sessions_.end()) {
      found->second.notification = notification;
    }
  }
  if (notification == Notification::kSendAfterWrite) {
    ReportDowngrade(session->key.fabric, reason);
  }
  return status;
}

absl::Status Worker::CloseSession(uint64_t lease, uint64_t handle) {
  absl::StatusOr<Session> session = FindSession(lease, handle);
  if (!session.ok()) return session.status();
  {
    absl::MutexLock lock(&mutex_);
    sessions_.erase(handle);
  }
  return executors_[session->executor]->CloseSession(session->key);
}

absl::StatusOr<uint16_t> Worker::RegisterWindow(uint64_t lease, uint64_t handle,
                                                const bootstrap::WindowDescriptor& window,
                                                bool readable, bool writable) {
  absl::StatusOr<Session> session = FindSession(lease, handle);
  if (!session.ok()) return session.status();
  return executors_[session->executor]->RegisterWindow(session->key, window, readable, writable);
}

absl::StatusOr<bootstrap::RequestState> Worker::FindRequest(uint64_t lease, uint64_t handle,
                                                            uint64_t sequence) {
  absl::StatusOr<Session> session = FindSession(lease, handle);
  if (!session.ok()) return session.status();
  return executors_[session->executor]->FindRequest(session->key, sequence);
}

absl::Status Worker::ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) {
  absl::StatusOr<Session> session = FindSession(lease, handle);
  if (!session.ok()) return session.status();
  return executors_[session->executor]->ForgetWindow(session->key, number);
}

ResourceUsage Worker::CloseLease(uint64_t lease) {
  std::vector<Session> closing;
  Bill bill;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = bills_.find(lease); found != bills_.end()) {
      bill = std::move(found->second);
      bills_.erase(found);
    }
    for (auto entry = sessions_.begin(); entry != sessions_.end();) {
      if (entry->second.lease == lease) {
        closing.push_back(entry->second);
        sessions_.erase(entry++);
      } else {
        ++entry;
      }
    }
  }
  std::vector<std::shared_ptr<SessionClosing>> closings;
  for (const Session& session : closing) {
    auto one = std::make_shared<SessionClosing>(&late_[session.executor]);
    executors_[session.executor]->CloseSessionLater(session.key, [one] { one->Done(); });
    closings.push_back(std::move(one));
  }
  // Not waited for to the end: an executor may run a function for ever.
  const int64_t until_ns = transport::MonotonicNs() + absl::ToInt64Nanoseconds(kBillGrace);
  for (const auto& one : closings) {
    one->Await(absl::Nanoseconds(std::max<int64_t>(until_ns - transport::MonotonicNs(), 0)));
  }
  const UsageCounters used = bill.Sum();
  ResourceUsage usage;
  usage.calls = used.calls;
  usage.function_time = absl::Nanoseconds(used.function_ns);
  usage.bytes_in = used.bytes_in;
  usage.bytes_out = used.bytes_out;
  return usage;
}

void Worker::OnSessionFailed(uint32_t executor, Executor::SessionKey key,
                             const absl::Status& status) {
  const uint64_t handle = HandleOf(executor, key);
  uint64_t lease = 0;
  SessionClosed callback;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = sessions_.find(handle);
    if (found == sessions_.end()) {
      if (opening_ > 0) failed_early_[handle] = status;
      return;
    }
    lease = found->second.lease;
    sessions_.erase(found);
    callback = on_session_closed_;
  }
  if (callback) callback(lease, handle, status.message());
}

absl::Status Worker::SetHotTimeout(absl::Duration hot_timeout) {
  for (const std::unique_ptr<Executor>& executor : executors_) {
    executor->SetHotTimeout(hot_timeout);
    for (size_t fabric = 0; fabric < served_.fabrics.size(); ++fabric) {
      if (absl::Status status = executor->OpenFabric(fabric); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void Worker::Drain() {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  for (const std::unique_ptr<Executor>& executor : executors_) executor->Drain();
}

void Worker::Finish(absl::Duration limit) {
  Drain();
  endpoint_watch_.Stop();
  // Those that are idle go on refusing calls while another still runs its last one.
  for (const std::unique_ptr<Executor>& executor : executors_) executor->FinishTurn();
  for (const std::unique_ptr<Executor>& executor : executors_) executor->Finish(limit);
}

void Worker::Stop(absl::Duration limit) {
  Finish(limit);
  for (const std::unique_ptr<Executor>& executor : executors_) executor->Stop(limit);
}

}  // namespace invoker
