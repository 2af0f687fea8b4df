// etcd for one job: a process of one member, whose store ends with it.

#ifndef INVOKER_SRC_LAUNCH_PRIVATE_ETCD_H_
#define INVOKER_SRC_LAUNCH_PRIVATE_ETCD_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/launch/job_certificate.h"
#include "src/launch/program.h"

namespace invoker::launch {

struct PrivateEtcd {
  bootstrap::HostPort endpoint;
  std::unique_ptr<Program> program;
};

// Starts it at `address`, with its store and its log in `folder`. It answers those that show
// the job's certificate. Blocks until it answers. UNAVAILABLE with what it has said.
absl::StatusOr<PrivateEtcd> StartPrivateEtcd(const std::string& folder, const std::string& address,
                                             const JobCertificate& certificate);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_PRIVATE_ETCD_H_
