// `invoker up`: a job of Slurm's with a worker on each node, and a program that calls them.

#include <stdlib.h>

#include <memory>
#include <string>

#include "src/base/unique_fd.h"
#include "src/launch/slurm_step.h"
#include "src/launch/up.h"
#include "tools/interrupt.h"
#include "tools/invoker_cli.h"

namespace invoker::tools {
namespace {

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

struct Settings {
  launch::UpOptions up;
  LogSettings log;
};

int Run(const Settings& settings) {
  SetLog(settings.log, "invoker");
  const absl::StatusOr<launch::SlurmStep> step = launch::ReadSlurmStep(&Variable);
  if (!step.ok()) return Fail(step.status());
  const absl::StatusOr<UniqueFd> signal_fd = TakeEndSignals();
  if (!signal_fd.ok()) return Fail(signal_fd.status());
  const absl::StatusOr<int> status = launch::Up(settings.up, *step, signal_fd->get());
  return status.ok() ? *status : Fail(status.status());
}

}  // namespace

Command AddUpCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  launch::UpOptions* const options = &settings->up;
  *command = app->add_subcommand(
      "up",
      "In a job of Slurm's: starts a worker on each node, and then the program on the first one, "
      "with the cluster's address in INVOKER_CLUSTER. Ends with the program, and with its exit "
      "status. srun -N4 invoker up -- python3 app.py");
  (*command)
      ->add_option(
          "--cluster", options->cluster,
          "the cluster in etcd that the workers join. By default the job has an etcd and a "
          "certificate of its own. Without a program, workers run until the job ends")
      ->type_name("URL");
  AddWorkerOption(*command, &options->worker);
  (*command)
      ->add_option("--meet", options->folder,
                   "a folder that all nodes share, where the tasks find one another")
      ->type_name("DIR")
      ->capture_default_str();
  (*command)
      ->add_option("--address", options->address,
                   "the IP address at which other nodes reach this one. By default that on the way "
                   "to etcd, to the first node or to srun's machine, or that of the node's name")
      ->type_name("ADDRESS");
  AddDuration(*command, "--wait", &options->wait,
              "how long the program's start waits for the workers of all nodes");
  AddLogOptions(*command, &settings->log);
  (*command)
      ->add_option("program", options->program, "what runs on the first node, and its arguments")
      ->type_name("PROGRAM");
  (*command)->footer(
      "Exit status: the program's; 128 and the number of the signal that ended it; 1 the job could "
      "not be started, 2 bad arguments.");
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
