#include "src/launch/up.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/cluster/cluster_address.h"
#include "src/launch/first_task.h"
#include "src/launch/other_task.h"
#include "src/launch/worker_program.h"

namespace invoker::launch {
namespace {

// For this user alone, and gone with its object.
class PrivateFolder {
 public:
  PrivateFolder() {
    std::error_code error;
    const std::filesystem::path place = std::filesystem::temp_directory_path(error);
    path_ = (place / "invoker-job-XXXXXX").string();
    if (error || mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~PrivateFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }  // empty: it could not be made

 private:
  std::string path_;
};

absl::Status Check(const UpOptions& options, const SlurmStep& step) {
  if (options.cluster.empty() && options.program.empty()) {
    return absl::InvalidArgumentError(
        "there is nothing to run: name a program after \"--\", or a cluster with --cluster, which "
        "the workers are to join");
  }
  if (!options.cluster.empty()) {
    absl::Status status = cluster::ParseEtcdAddress(options.cluster).status();
    if (!status.ok()) return status;
  }
  if (step.batch && !options.program.empty()) {
    return absl::InvalidArgumentError(
        "a script of sbatch's runs on one node only; start this with srun in it: srun invoker up "
        "-- PROGRAM");
  }
  return absl::OkStatus();
}

// Returns only if that fails.
absl::Status BecomeWorker(const UpOptions& options, const SlurmStep& step) {
  absl::StatusOr<ProgramSettings> settings = WorkerProgram(
      options, step, NodeAddress(options, step, EtcdHost(options)), options.cluster, nullptr);
  if (!settings.ok()) return settings.status();
  for (const auto& [name, value] : settings->variables) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  std::vector<char*> arguments;
  for (std::string& argument : settings->command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  execv(arguments[0], arguments.data());
  return absl::NotFoundError(absl::StrCat("cannot start ", arguments[0], ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<int> Up(const UpOptions& options, const SlurmStep& step, int signal_fd) {
  absl::Status status = Check(options, step);
  if (!status.ok()) return status;
  if (!step.first_on_node) return 0;
  if (options.program.empty()) return BecomeWorker(options, step);
  const PrivateFolder folder;
  if (folder.path().empty()) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a folder for temporary files: ", strerror(errno)));
  }
  if (step.rank == 0) return FirstTask(options, step, folder.path(), signal_fd).Run();
  status = RunOtherTask(options, step, folder.path(), signal_fd);
  if (!status.ok()) return status;
  return 0;
}

}  // namespace invoker::launch
