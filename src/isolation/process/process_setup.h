// What the child does between fork and its work as an executor: another user, limits, and nothing
// open that is not its own. One thread.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_PROCESS_SETUP_H_
#define INVOKER_SRC_ISOLATION_PROCESS_PROCESS_SETUP_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace invoker {

struct ExecutorUser {
  bool change = false;
  uid_t uid = 0;
  gid_t gid = 0;
  // Above uid: each executor runs as another one of these, whose group has the same number.
  uid_t last_uid = 0;

  bool several() const { return last_uid > uid; }
};

// Whom executors run as if `name` was asked for, by this process: nobody's for root where it is
// empty; no change for others, who cannot. "LOW-HIGH", two numbers: any of them, whom the machine
// need not know. NOT_FOUND for a user that there is not,
// PERMISSION_DENIED where only root could.
absl::StatusOr<ExecutorUser> FindExecutorUser(const std::string& name);

// Makes an executor of the calling process, a child of `parent`: it ends with it, has its own
// session, is the one that orphans among its descendants become children of, runs as `user`, cannot
// gain privileges, leaves no core, has modest limits, and stands in "/".
absl::Status BecomeExecutor(pid_t parent, const ExecutorUser& user);

// Closes everything from `first` on.
void CloseFrom(int first);

// What asks a whole program to end: SIGTERM, SIGINT, SIGHUP and SIGQUIT. A batch system sends it to
// every process of a job. The server takes it, and drains; its executors work on meanwhile, and end
// when the server says so, or is gone.
sigset_t EndSignals();

// From now on such a signal does nothing here. It is blocked no more, and what this process starts
// has the usual handling.
void IgnoreEndSignals();

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_PROCESS_SETUP_H_
