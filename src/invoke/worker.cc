#include "src/invoke/worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/host_identity.h"
#include "src/invoke/negotiation.h"
#include "src/invoke/version.h"
#include "src/transport/discovery.h"

namespace invoker {
namespace {

constexpr uint32_t kMaxExecutors = 1024;

// Unique for the life of the worker, as an executor's epochs are.
uint64_t HandleOf(uint32_t executor, Executor::SessionKey key) {
  return uint64_t{executor + 1} << 48 | uint64_t{key.number} << 32 | key.epoch;
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
  std::unique_ptr<Worker> worker(new Worker(options, std::move(functions)));
  for (uint32_t index = 0; index < options.executors; ++index) {
    transport::FabricRequest request;
    request.provider = options.provider;
    request.address = options.fabric_address;
    absl::StatusOr<transport::FabricChoice> fabric = transport::Discover(request);
    if (!fabric.ok()) return fabric.status();
    if (fabric->profile.max_message_bytes < options.window_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a window of ", options.window_bytes, " bytes is more than provider ",
          fabric->profile.provider, " writes at once: ", fabric->profile.max_message_bytes));
    }
    ExecutorOptions executor_options = options.executor;
    executor_options.index = index;
    absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Start(
        *std::move(fabric), &worker->functions_, executor_options,
        [raw = worker.get(), index](Executor::SessionKey key, const absl::Status& status) {
          raw->OnSessionFailed(index, key, status);
        });
    if (!executor.ok()) return executor.status();
    worker->executors_.push_back(*std::move(executor));
  }
  return worker;
}

Worker::Worker(const WorkerOptions& options, FunctionRegistry functions)
    : options_(options), functions_(std::move(functions)) {}

Worker::~Worker() { Stop(absl::Seconds(1)); }

void Worker::set_on_session_closed(SessionClosed callback) {
  absl::MutexLock lock(&mutex_);
  on_session_closed_ = std::move(callback);
}

bootstrap::WorkerInfo Worker::Info() const {
  const Executor& executor = *executors_.front();
  const fi_info& fabric = executor.info();
  bootstrap::WorkerInfo info;
  info.software_version = kVersion;
  info.fabric = {executor.profile().provider, fabric.ep_attr->protocol,
                 fabric.ep_attr->protocol_version, fabric.addr_format};
  info.endpoint_address = executor.address();
  info.notification = options_.notification;
  info.window_bytes = options_.window_bytes;
  info.executors = static_cast<uint32_t>(executors_.size());
  info.host_identity = HostIdentity();
  for (const FunctionEntry& entry : functions_.entries()) info.functions.push_back({entry.name});
  return info;
}

std::string Worker::fabric_address() const {
  return transport::DescribeSource(executors_.front()->info());
}

Executor* Worker::LeastLoaded() {
  Executor* best = nullptr;
  for (const std::unique_ptr<Executor>& executor : executors_) {
    if (!executor->healthy()) continue;
    const auto load = [](const Executor& of) {
      return std::make_pair(of.live_sessions(), of.busy());
    };
    if (best == nullptr || load(*executor) < load(*best)) best = executor.get();
  }
  return best;
}

absl::StatusOr<bootstrap::OpenSessionReply> Worker::OpenSession(
    uint64_t lease, const bootstrap::OpenSessionRequest& request) {
  {
    absl::MutexLock lock(&mutex_);
    if (draining_) return absl::UnavailableError("the worker is shutting down");
  }
  Executor* executor = LeastLoaded();
  if (executor == nullptr) {
    return absl::UnavailableError(
        "every executor's completion queue has failed (see the server's log); restart the server");
  }
  absl::StatusOr<transport::Notification> notification = NegotiateNotification(
      options_.notification, request.notification, executor->profile().notification);
  if (!notification.ok()) return notification.status();
  absl::StatusOr<bootstrap::OpenSessionReply> reply = executor->OpenSession(request, *notification);
  if (!reply.ok()) return reply.status();
  const Executor::SessionKey key = {reply->request_session, reply->epoch};
  reply->handle = HandleOf(reply->executor, key);
  absl::MutexLock lock(&mutex_);
  sessions_[reply->handle] = {lease, reply->executor, key};
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

absl::Status Worker::SwitchNotification(uint64_t lease, uint64_t handle,
                                        transport::Notification notification) {
  absl::StatusOr<Session> session = FindSession(lease, handle);
  if (!session.ok()) return session.status();
  return executors_[session->executor]->SwitchNotification(session->key, notification);
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

void Worker::CloseLease(uint64_t lease) {
  std::vector<Session> closing;
  {
    absl::MutexLock lock(&mutex_);
    for (auto entry = sessions_.begin(); entry != sessions_.end();) {
      if (entry->second.lease == lease) {
        closing.push_back(entry->second);
        sessions_.erase(entry++);
      } else {
        ++entry;
      }
    }
  }
  // Not waited for: an executor may run a function for long, and other leases end meanwhile.
  for (const Session& session : closing) {
    executors_[session.executor]->CloseSessionLater(session.key);
  }
}

void Worker::OnSessionFailed(uint32_t executor, Executor::SessionKey key,
                             const absl::Status& status) {
  const uint64_t handle = HandleOf(executor, key);
  uint64_t lease = 0;
  SessionClosed callback;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = sessions_.find(handle);
    if (found == sessions_.end()) return;
    lease = found->second.lease;
    sessions_.erase(found);
    callback = on_session_closed_;
  }
  if (callback) callback(lease, handle, status.message());
}

void Worker::Drain() {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  for (const std::unique_ptr<Executor>& executor : executors_) executor->Drain();
}

void Worker::Stop(absl::Duration limit) {
  Drain();
  // Those that are idle go on refusing calls while another still runs its last one.
  for (const std::unique_ptr<Executor>& executor : executors_) executor->FinishTurn();
  for (const std::unique_ptr<Executor>& executor : executors_) executor->Stop(limit);
}

ExecutorCounters Worker::Counters() {
  ExecutorCounters sum;
  for (const std::unique_ptr<Executor>& executor : executors_) {
    const ExecutorCounters counters = executor->Counters();
    sum.executed += counters.executed;
    sum.refused += counters.refused;
    sum.dropped += counters.dropped;
    sum.unknown_doorbells += counters.unknown_doorbells;
    sum.live_sessions += counters.live_sessions;
  }
  return sum;
}

}  // namespace invoker
