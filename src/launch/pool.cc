#include "src/launch/pool.h"

#include <poll.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "src/cluster/cluster_address.h"
#include "src/cluster/member_watch.h"
#include "src/launch/labels.h"
#include "src/launch/monotonic.h"
#include "src/launch/slurm_jobs.h"
#include "src/log/log.h"
#include "src/transport/self_test/installed_program.h"

namespace invoker::launch {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);

using Members = std::vector<cluster::Member>;

// What a job runs: `invoker up`, which becomes the worker.
absl::StatusOr<std::string> JobScript(const PoolOptions& options) {
  absl::StatusOr<std::string> invoker = transport::FindInstalledProgram("invoker", "jobs run");
  if (!invoker.ok()) return invoker.status();
  std::string script = absl::StrCat("exec ", ShellWord(*invoker), " up ",
                                    ShellWord(absl::StrCat("--cluster=", options.cluster)));
  for (const std::string& option : options.worker) {
    absl::StrAppend(&script, " ", ShellWord(absl::StrCat("--worker=", option)));
  }
  return script;
}

class Pool {
 public:
  Pool(const PoolOptions& options, std::string name, std::string script, int stop_fd)
      : options_(options),
        jobs_(absl::StrCat("invoker-pool-", name), std::move(script), options.sbatch, stop_fd),
        plan_(options.limits),
        stop_fd_(stop_fd) {}
  ~Pool() { watch_.reset(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  absl::Status Run() {
    absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch =
        cluster::MemberWatch::Start(options_.cluster, ClusterCredentials());
    if (!watch.ok()) return watch.status();
    watch_ = *std::move(watch);
    watch_->Follow([this](const Members& members) {
      absl::MutexLock lock(&mutex_);
      members_ = members;
    });
    pollfd stop = {stop_fd_, POLLIN, 0};
    do {
      Tell(Step());
    } while (poll(&stop, 1, static_cast<int>(absl::ToInt64Milliseconds(kPeriod))) == 0);
    return absl::OkStatus();
  }

 private:
  // Once when something does not answer, and once when it does again.
  void Tell(const absl::Status& status) {
    if (absl::IsCancelled(status)) return;
    if (!status.ok() && !std::exchange(failing_, true)) {
      LogWarning(absl::StrCat(status.message(), "; the pool stays as it is until then"));
    } else if (status.ok() && std::exchange(failing_, false)) {
      LogInfo("Slurm and etcd answer again");
    }
  }

  absl::Status Step() {
    const absl::StatusOr<std::map<uint64_t, cluster::Load>> loads = watch_->Loads();
    if (!loads.ok()) return loads.status();
    const absl::StatusOr<std::vector<std::string>> ids = jobs_.List();
    if (!ids.ok()) return ids.status();
    uint32_t waiting = 0;
    for (const auto& [incarnation, load] : *loads) waiting += load.waiting;
    const PoolStep step = plan_.Next(Look(*ids, *loads), waiting, MonotonicNow());
    if (!step.failed.empty()) {
      LogError(absl::StrCat("jobs ", absl::StrJoin(step.failed, ", "),
                            " have ended before their workers were in the cluster; Slurm's "
                            "output of them says why. The next ones are submitted in ",
                            absl::FormatDuration(step.pause)));
    }
    for (uint32_t i = 0; i < step.submit; ++i) {
      const absl::StatusOr<std::string> id = jobs_.Submit();
      if (!id.ok()) return id.status();
      plan_.Submitted(*id);
      LogInfo(absl::StrCat("submitted job ", *id, ": ", ids->size() + i + 1, " jobs, ", waiting,
                           " leases wait"));
    }
    for (const std::string& id : step.drain) {
      absl::Status status = jobs_.Terminate(id);
      if (!status.ok()) plan_.DrainFailed(id);
      if (!status.ok()) return status;
      LogInfo(absl::StrCat("draining job ", id, ": it had no lease for ",
                           absl::FormatDuration(options_.limits.idle)));
    }
    return absl::OkStatus();
  }

  std::vector<PoolJob> Look(const std::vector<std::string>& ids,
                            const std::map<uint64_t, cluster::Load>& loads) {
    absl::MutexLock lock(&mutex_);
    std::vector<PoolJob> jobs;
    for (const std::string& id : ids) {
      PoolJob job;
      job.id = id;
      for (const cluster::Member& member : members_) {
        const auto label = member.labels.find(kJobLabel);
        if (label == member.labels.end() || label->second != id) continue;
        job.registered = true;
        const auto load = loads.find(member.incarnation);
        job.idle = load != loads.end() && load->second.free_cores == member.cores &&
                   load->second.waiting == 0;
      }
      jobs.push_back(std::move(job));
    }
    return jobs;
  }

  const PoolOptions& options_;
  const SlurmJobs jobs_;
  PoolPlan plan_;
  const int stop_fd_;
  bool failing_ = false;
  absl::Mutex mutex_;
  Members members_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<cluster::MemberWatch> watch_;
};

absl::Status Check(const PoolOptions& options) {
  if (options.limits.least < 1 || options.limits.most < options.limits.least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--min is ", options.limits.least, " and --max ", options.limits.most,
        ": there must be one worker at least, in whose line leases wait, and no fewer at most"));
  }
  for (const std::string& option : options.sbatch) {
    if (absl::StartsWith(option, "-")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("\"", option, "\" is no option of sbatch's, such as --partition=NAME"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPool(const PoolOptions& options, int stop_fd) {
  absl::Status status = Check(options);
  if (!status.ok()) return status;
  const absl::StatusOr<cluster::EtcdAddress> address = cluster::ParseEtcdAddress(options.cluster);
  if (!address.ok()) return address.status();
  absl::StatusOr<std::string> script = JobScript(options);
  if (!script.ok()) return script.status();
  return Pool(options, address->name, *std::move(script), stop_fd).Run();
}

}  // namespace invoker::launch
