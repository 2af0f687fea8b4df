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

// Has it drain, and waits until it has ended: for 15 s at most, where it has 5 s for functions that
// run and 5 s more to end, unless told otherwise.
void DrainWorker(Program* worker);

// This node's address, for the other nodes: the one on the way to `peer`, which may be empty, or
// else to where srun runs, or that of the node's name.
std::string NodeAddress(const UpOptions& options, const SlurmStep& step, const std::string& peer);

// A host of a named cluster's etcd; empty if it is not named.
std::string EtcdHost(const UpOptions& options);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_WORKER_PROGRAM_H_
