#include "tools/server_leases.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/code/code_service.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "src/log/log.h"

namespace invoker::tools {
namespace {

// What leased executors are made from: they serve what the worker has proven.
SpawnerOptions SpawnerOptionsFor(const ServerSettings& settings, const Worker& worker) {
  SpawnerOptions options = settings.spawner;
  options.libraries = settings.functions;
  options.worker = settings.worker;
  options.worker.executors = 1;
  options.worker.providers.clear();
  for (const transport::FabricChoice& fabric : worker.fabrics()) {
    options.worker.providers.push_back(fabric.profile.provider);
  }
  return options;
}

absl::StatusOr<std::unique_ptr<ExecutorSpawner>> StartSpawner(const SpawnerOptions& options) {
  absl::StatusOr<std::unique_ptr<ExecutorSpawner>> spawner = ExecutorSpawner::Start(options);
  if (!spawner.ok()) return spawner.status();
  for (const std::string& note : (*spawner)->Notes()) LogInfo(note);
  return spawner;
}

// A server that was not asked for leases does without them where the program of their executors,
// which is installed beside this one, is missing.
LeasePolicy PolicyHere(const ServerSettings& settings) {
  LeasePolicy policy = settings.policy;
  if (settings.leases_asked_for || policy.total.cores == 0) return policy;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = self.parent_path() / "invoker_executor";
  if (!error && access(program.c_str(), X_OK) == 0) return policy;
  LogWarning(
      absl::StrCat("clients can lease no executors of their own: there is no program ", program));
  policy.total = Resources();
  return policy;
}

UsageReading ReadingOf(const UsageCounters& counters) {
  UsageReading reading;
  reading.calls = counters.calls;
  reading.function_time = absl::Nanoseconds(counters.function_ns);
  reading.polling_time = absl::Nanoseconds(counters.polling_ns);
  reading.bytes_in = counters.bytes_in;
  reading.bytes_out = counters.bytes_out;
  return reading;
}

LeaseHost::Shared SharedBy(Worker* worker) {
  return {worker, [worker](uint64_t lease) { return ReadingOf(worker->UsageUnder(lease)); }};
}

absl::StatusOr<std::unique_ptr<BlobCache>> OpenCache(const ServerSettings& settings) {
  if (settings.upload == UploadPolicy::kNone) return std::unique_ptr<BlobCache>();
  BlobCacheOptions options;
  options.directory = settings.upload_cache;
  options.capacity_bytes = settings.upload_cache_bytes;
  return BlobCache::Open(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerLeases>> ServerLeases::Start(
    const ServerSettings& settings, Worker* worker, LeaseHost::LeaseLost on_lease_lost) {
  absl::StatusOr<std::unique_ptr<ServerAccounting>> accounting =
      ServerAccounting::Start(settings.accounting, worker->fabrics(), settings.worker.executors);
  if (!accounting.ok()) return accounting.status();
  absl::StatusOr<std::unique_ptr<BlobCache>> cache = OpenCache(settings);
  if (!cache.ok()) return cache.status();
  return std::unique_ptr<ServerLeases>(new ServerLeases(settings, worker, std::move(on_lease_lost),
                                                        *std::move(accounting), *std::move(cache)));
}

ServerLeases::ServerLeases(const ServerSettings& settings, Worker* worker,
                           LeaseHost::LeaseLost on_lease_lost,
                           std::unique_ptr<ServerAccounting> accounting,
                           std::unique_ptr<BlobCache> cache)
    : asked_for_(settings.leases_asked_for),
      upload_(settings.upload),
      on_lease_lost_(std::move(on_lease_lost)),
      accounting_(std::move(accounting)),
      cache_(std::move(cache)),
      spawner_([options = SpawnerOptionsFor(settings, *worker)] { return StartSpawner(options); }),
      host_(PolicyHere(settings), SharedBy(worker), &spawner_, accounting_->book()) {
  if (asked_for_) spawner_.StartSoon();
}

absl::Status ServerLeases::Await() {
  return asked_for_ ? spawner_.Get().status() : absl::OkStatus();
}

std::vector<bootstrap::ServiceFactory> ServerLeases::services() {
  return {accounting_->service(), MakeCodeService(cache_.get(), upload_)};
}

void ServerLeases::Watch(Worker::SessionClosed on_session_closed,
                         Worker::Downgraded on_downgraded) {
  host_.set_events({std::move(on_session_closed), std::move(on_downgraded), on_lease_lost_});
}

}  // namespace invoker::tools
