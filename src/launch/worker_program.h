// How invoker_server is started in a job.

#ifndef INVOKER_SRC_LAUNCH_WORKER_PROGRAM_H_
#define INVOKER_SRC_LAUNCH_WORKER_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/launch/job_certificate.h"
#include "src/launch/program.h"
#include "src/launch/slurm_step.h"
#include "src/launch/up.h"

namespace invoker::launch {

// The worker of this node at `address`, in `cluster`. The job's cores and memory are what it
// leases, unless the user says otherwise: by options, or by variables of invoker_server's.
// `certificate`, the job's own, may be null; with one the cluster is this user's alone, and the
// worker takes uploads. NOT_FOUND if invoker_server is not installed.
absl::StatusOr<ProgramSettings> WorkerProgram(const UpOptions& options, const SlurmStep& step,
                                              const std::string& address,
                                              const std::string& cluster,
                                              const JobCertificate* certificate);

// This node's address, for the other nodes.
std::string NodeAddress(const UpOptions& options, const SlurmStep& step);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_WORKER_PROGRAM_H_
