#include "tools/watched_servers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/clock.h"

namespace invoker::tools {
namespace {

using bootstrap::BootstrapClient;
using bootstrap::FunctionCounts;
using bootstrap::FunctionTable;
using bootstrap::ServerStatus;

uint64_t Since(uint64_t now, uint64_t before) { return now - std::min(now, before); }

FunctionCounts Since(const FunctionCounts& now, const FunctionCounts& before) {
  FunctionCounts since;
  since.calls = Since(now.calls, before.calls);
  since.failures = Since(now.failures, before.failures);
  for (size_t i = 0; i < now.time.counts.size(); ++i) {
    since.time.counts[i] = Since(now.time.counts[i], before.time.counts[i]);
  }
  return since;
}

}  // namespace

class WatchedServers::Server {
 public:
  explicit Server(std::string address) : address_(std::move(address)) {}

  // False if an answer is on its way, or has come and was not taken.
  bool BeginLook() {
    absl::MutexLock lock(&mutex_);
    if (asked_ || answer_.has_value()) return false;
    asked_ = true;
    return true;
  }

  // Asks, and connects first if it has to. Blocks.
  void Ask(const ClientCredentials& credentials, absl::Duration timeout) {
    absl::StatusOr<ServerLook> look = Compare(Get(credentials, timeout));
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(look);
    asked_ = false;
  }

  absl::StatusOr<ServerLook> AwaitAnswer(absl::Time until) {
    absl::MutexLock lock(&mutex_);
    const auto answered = [this]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return answer_.has_value(); };
    if (!mutex_.AwaitWithDeadline(absl::Condition(&answered), until)) {
      return absl::DeadlineExceededError("no answer yet from " + address_);
    }
    return *std::exchange(answer_, std::nullopt);
  }

 private:
  absl::StatusOr<ServerStatus> Get(const ClientCredentials& credentials, absl::Duration timeout) {
    if (client_ == nullptr) {
      auto client = BootstrapClient::Connect(address_, timeout, credentials);
      if (!client.ok()) return client.status();
      client_ = *std::move(client);
    }
    absl::StatusOr<ServerStatus> status = client_->GetStatus(timeout);
    if (!status.ok()) client_.reset();
    return status;
  }

  absl::StatusOr<ServerLook> Compare(absl::StatusOr<ServerStatus> status) {
    if (!status.ok()) return status.status();
    const absl::Time now = absl::Now();
    ServerLook look;
    // One that was started again has counted from 0.
    if (before_.has_value() && status->started != started_) before_ = FunctionTable();
    started_ = status->started;
    FunctionTable functions = status->worker.shared.functions;
    functions.Add(status->worker.leased.functions);
    for (const auto& [key, counts] : functions.rows()) {
      FunctionCounts& since = look.since[key];
      if (!before_.has_value()) continue;
      const auto before = before_->rows().find(key);
      since = before == before_->rows().end() ? counts : Since(counts, before->second);
    }
    if (before_.has_value()) look.seconds = absl::ToDoubleSeconds(now - answered_at_);
    before_ = std::move(functions);
    answered_at_ = now;
    look.status = *std::move(status);
    return look;
  }

  const std::string address_;
  // Ask's, of which one runs at a time.
  std::unique_ptr<BootstrapClient> client_;
  std::optional<FunctionTable> before_;
  absl::Time answered_at_;
  absl::Time started_;

  absl::Mutex mutex_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::StatusOr<ServerLook>> answer_ ABSL_GUARDED_BY(mutex_);
};

void WatchedServers::Keep(const std::vector<std::string>& addresses) {
  std::map<std::string, std::shared_ptr<Server>> now;
  for (const std::string& address : addresses) {
    std::shared_ptr<Server>& server = now[address];
    const auto known = servers_.find(address);
    server = known != servers_.end() ? known->second : std::make_shared<Server>(address);
  }
  servers_ = std::move(now);
}

std::map<std::string, absl::StatusOr<ServerLook>> WatchedServers::Look(absl::Duration limit) {
  for (const auto& [address, server] : servers_) {
    if (!server->BeginLook()) continue;
    threads_.Run([this, server = server] { server->Ask(credentials_, timeout_); });
  }
  const absl::Time until = absl::Now() + limit;
  std::map<std::string, absl::StatusOr<ServerLook>> looks;
  for (const auto& [address, server] : servers_) {
    looks.emplace(address, server->AwaitAnswer(until));
  }
  return looks;
}

}  // namespace invoker::tools
