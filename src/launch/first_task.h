// The task of rank 0: it starts the cluster and the program, and its end is the job's.

#ifndef INVOKER_SRC_LAUNCH_FIRST_TASK_H_
#define INVOKER_SRC_LAUNCH_FIRST_TASK_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/unique_fd.h"
#include "src/cluster/member_watch.h"
#include "src/launch/job_certificate.h"
#include "src/launch/listener.h"
#include "src/launch/private_etcd.h"
#include "src/launch/program.h"
#include "src/launch/slurm_step.h"
#include "src/launch/up.h"

namespace invoker::launch {

class FirstTask {
 public:
  // Both outlive it. `folder` is a private one on this node.
  FirstTask(const UpOptions& options, const SlurmStep& step, std::string folder, int signal_fd);
  // Ends whatever still runs.
  ~FirstTask();
  FirstTask(const FirstTask&) = delete;
  FirstTask& operator=(const FirstTask&) = delete;

  // The program's exit status.
  absl::StatusOr<int> Run();

 private:
  absl::Status Start();
  absl::Status StartCluster(const std::string& address);
  absl::Status FollowMembers();
  // Starts the program once all workers are there, or those that have come in time.
  absl::Status StartProgramOnceReady();
  // Waits for something to happen, and does what is to be done about it.
  void Await();
  void OnSignal();
  // Drains the workers, and waits for them.
  void Finish();

  const UpOptions& options_;
  const SlurmStep& step_;
  const std::string folder_;
  const int signal_fd_;
  const absl::Duration wait_until_;  // by MonotonicNow
  const std::string meeting_path_;
  std::string cluster_;
  std::optional<JobCertificate> certificate_;  // with etcd of the job's own
  PrivateEtcd etcd_;
  Listener listener_;
  std::vector<UniqueFd> others_;    // connections; closed, they end the other tasks
  UniqueFd members_changed_;        // an eventfd
  std::atomic<size_t> workers_{0};  // the job's that have registered
  std::unique_ptr<cluster::MemberWatch> watch_;
  std::unique_ptr<Program> worker_;
  std::unique_ptr<Program> program_;
  int signalled_ = 0;
};

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_FIRST_TASK_H_
