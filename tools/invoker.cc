// The command line's way to a worker: lists its functions, calls one, once or for many files,
// measures round trips, tells who used what; and to this machine's fabrics, and a server's policy.

#include <signal.h>
#include <stdlib.h>

#include <iterator>
#include <utility>
#include <vector>

#include "invoker/version.h"
#include "tools/invoker_cli.h"
#include "tools/security_options.h"

namespace invoker::tools {
namespace {

// Libraries that libfabric brings along have put handlers of their own in place when they were
// loaded. Those leave a file behind after a crash, and at Ctrl-C they call exit() in the middle of
// whatever this program's threads do, which may never return.
void RestoreSignals() {
  for (const int number : {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGABRT}) {
    signal(number, SIG_DFL);
  }
}

int Main(int argc, char** argv) {
  RestoreSignals();
  // What gRPC would log of a failed handshake is in the error that follows, in words.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // A reader that goes away is an error like others.
  signal(SIGPIPE, SIG_IGN);
  CLI::App app("Calls functions on a worker that runs invoker_server.", "invoker");
  app.set_version_flag("--version", Version());
  app.require_subcommand(1);
  app.footer(kExitStatusHelp);

  std::vector<std::pair<CLI::App*, Command>> commands;
  for (const auto add : {AddFunctionsCommand, AddCallCommand, AddMapCommand, AddPingCommand,
                         AddUsageCommand, AddMembersCommand, AddUpCommand, AddPoolCommand,
                         AddDropsCommand, AddStatusCommand, AddTopCommand, AddLeasesCommand,
                         AddDrainCommand, AddFabricsCommand, AddDoctorCommand, AddPolicyCommand}) {
    CLI::App* command = nullptr;
    Command run = add(&app, &command);
    if (command->get_footer().empty()) command->footer(kExitStatusHelp);
    commands.emplace_back(command, std::move(run));
  }
  // After the commands, or each would have it too.
  app.set_help_all_flag("--help-all", "Print the help of every command and exit");
  const Configuration configuration = {
      "INVOKER_",
      UsersConfigurationFile("config"),
      "~/.config/invoker/config",
      {std::begin(kCredentialOptions), std::end(kCredentialOptions)}};
  if (const int code = Parse(&app, configuration, argc, argv); code >= 0) return code;
  for (const auto& [command, run] : commands) {
    if (command->parsed()) return run();
  }
  return kExitUsage;
}

}  // namespace
}  // namespace invoker::tools

int main(int argc, char** argv) { return invoker::tools::Main(argc, argv); }
