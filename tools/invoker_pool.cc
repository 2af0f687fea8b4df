// `invoker pool`: keeps jobs of Slurm's, each a worker of a cluster, for services that live long.

#include <memory>

#include "src/base/unique_fd.h"
#include "src/launch/pool.h"
#include "tools/interrupt.h"
#include "tools/invoker_cli.h"

namespace invoker::tools {
namespace {

struct Settings {
  launch::PoolOptions pool;
  LogSettings log;
};

int Run(const Settings& settings) {
  SetLog(settings.log, "invoker");
  const absl::StatusOr<UniqueFd> signal_fd = TakeEndSignals();
  if (!signal_fd.ok()) return Fail(signal_fd.status());
  const absl::Status status = launch::RunPool(settings.pool, signal_fd->get());
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

Command AddPoolCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  launch::PoolOptions* const options = &settings->pool;
  *command = app->add_subcommand(
      "pool",
      "Keeps jobs of Slurm's, each of them a worker of a cluster: more while leases wait, and "
      "fewer when workers have none. Runs until SIGTERM or Ctrl-C; the jobs stay, and the next "
      "pool of the same cluster takes them over.");
  (*command)->add_flag("--slurm", "submit the jobs to Slurm")->required();
  (*command)
      ->add_option("--cluster", options->cluster, "the cluster in etcd that the workers join")
      ->type_name("URL")
      ->required();
  (*command)
      ->add_option("--min", options->limits.least, "so many workers at least")
      ->type_name("N")
      ->capture_default_str();
  (*command)
      ->add_option("--max", options->limits.most, "so many at most")
      ->type_name("N")
      ->required();
  AddDuration(*command, "--idle", &options->limits.idle,
              "a worker that has had no lease for so long is drained");
  (*command)
      ->add_option("--sbatch", options->sbatch,
                   "an option of sbatch's: --sbatch=--partition=batch; repeat it for several")
      ->allow_extra_args(false)
      ->type_name("OPTION");
  AddWorkerOption(*command, &options->worker);
  AddLogOptions(*command, &settings->log);
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
