// What the subcommands of the `invoker` program have in common: options, exit statuses, messages.

#ifndef INVOKER_TOOLS_INVOKER_CLI_H_
#define INVOKER_TOOLS_INVOKER_CLI_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "invoker/client.h"
#include "src/bootstrap/client/client.h"
#include "tools/options.h"

namespace invoker::tools {

// Beyond those of every program (options.h).
inline constexpr int kExitCannotConnect = 3;
inline constexpr int kExitTimeout = 4;

// The exit statuses in words, for --help.
extern const char kExitStatusHelp[];

struct ServerSettings {
  std::string server;
  ClientOptions client;
};

// --server (or the environment's INVOKER_SERVER), --connect-timeout, --peer-timeout, and what
// security_options.h adds.
void AddServerOptions(CLI::App* command, ServerSettings* settings);
// The same for several servers: "HOST:PORT,HOST:PORT", or a cluster.
void AddServersOption(CLI::App* command, ServerSettings* settings);
// Whether that names several, or a cluster.
bool NamesSeveral(const ServerSettings& settings);
// --provider, --fabric-address and --notify.
void AddFabricOptions(CLI::App* command, ServerSettings* settings);

// --retry: CallOptions::retry.
void AddRetry(CLI::App* command, uint32_t* retry);

// --worker: options of the invoker_server that a command starts.
void AddWorkerOption(CLI::App* command, std::vector<std::string>* options);

// Opens a session. nullptr after an error, which has been printed; `exit_code` says which.
std::unique_ptr<Client> Connect(const ServerSettings& settings, int* exit_code);

// Asks a server's bootstrap, which needs no fabric, and prints the text that `ask` makes of the
// answer. Returns the exit status.
using AskBootstrap = std::function<absl::StatusOr<std::string>(bootstrap::BootstrapClient* client,
                                                               absl::Duration timeout)>;
int PrintAnswer(const ServerSettings& settings, const AskBootstrap& ask);
// The same for a subcommand with settings of its own, of which `server` says whom to ask.
template <typename Settings>
int PrintAnswer(const Settings& settings,
                absl::StatusOr<std::string> (*ask)(const Settings& settings,
                                                   bootstrap::BootstrapClient* client,
                                                   absl::Duration timeout)) {
  return PrintAnswer(settings.server,
                     [&](bootstrap::BootstrapClient* client, absl::Duration timeout) {
                       return ask(settings, client, timeout);
                     });
}

// Print "invoker: error: ..." on standard error and return the exit status.
int FailConnect(const absl::Status& status);
int Fail(const absl::Status& status);
int Fail(const absl::Status& status, CallFate fate);

// Writes all of it to standard output, now.
absl::Status Print(absl::string_view text);

// A subcommand adds itself to `app` and returns what to run if it was given; the result is the exit
// status.
using Command = std::function<int()>;
Command AddFunctionsCommand(CLI::App* app, CLI::App** command);
Command AddCallCommand(CLI::App* app, CLI::App** command);
Command AddMembersCommand(CLI::App* app, CLI::App** command);
Command AddPoolCommand(CLI::App* app, CLI::App** command);
Command AddUpCommand(CLI::App* app, CLI::App** command);
Command AddPingCommand(CLI::App* app, CLI::App** command);
Command AddFabricsCommand(CLI::App* app, CLI::App** command);
Command AddMapCommand(CLI::App* app, CLI::App** command);
Command AddUsageCommand(CLI::App* app, CLI::App** command);
Command AddPolicyCommand(CLI::App* app, CLI::App** command);
Command AddDoctorCommand(CLI::App* app, CLI::App** command);
Command AddDropsCommand(CLI::App* app, CLI::App** command);
Command AddLeasesCommand(CLI::App* app, CLI::App** command);
Command AddDrainCommand(CLI::App* app, CLI::App** command);
Command AddStatusCommand(CLI::App* app, CLI::App** command);
Command AddTopCommand(CLI::App* app, CLI::App** command);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_INVOKER_CLI_H_
