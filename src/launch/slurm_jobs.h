// The jobs of one name, through Slurm's own programs. One thread.

#ifndef INVOKER_SRC_LAUNCH_SLURM_JOBS_H_
#define INVOKER_SRC_LAUNCH_SLURM_JOBS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker::launch {

class SlurmJobs {
 public:
  // `script` is what a job runs, for a shell; `options` are sbatch's. `stop_fd` ends what waits for
  // Slurm with CANCELLED, once it is readable.
  SlurmJobs(std::string name, std::string script, std::vector<std::string> options, int stop_fd)
      : name_(std::move(name)),
        script_(std::move(script)),
        options_(std::move(options)),
        stop_fd_(stop_fd) {}

  // Each blocks until Slurm answers. UNAVAILABLE with what Slurm has said.
  // The ids of this user's jobs that wait or run.
  absl::StatusOr<std::vector<std::string>> List() const;
  // The id of a new one.
  absl::StatusOr<std::string> Submit() const;
  // SIGTERM for what it runs; or its end, if it has not begun.
  absl::Status Terminate(const std::string& id) const;

 private:
  const std::string name_;
  const std::string script_;
  const std::vector<std::string> options_;
  const int stop_fd_;
};

// A word for a shell that stands for exactly `text`.
std::string ShellWord(absl::string_view text);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_SLURM_JOBS_H_
