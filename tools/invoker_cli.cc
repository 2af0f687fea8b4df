#include "tools/invoker_cli.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/log/log.h"
#include "src/transport/provider/provider_profile.h"
#include "tools/files.h"
#include "tools/security_options.h"

namespace invoker::tools {
namespace {

constexpr char kProgram[] = "invoker";

void AddTimeouts(CLI::App* command, ServerSettings* settings) {
  AddDuration(command, "--connect-timeout", &settings->client.connect_timeout,
              "for each step of connecting");
  AddDuration(command, "--peer-timeout", &settings->client.peer_timeout,
              "calls end within this time of the server's death, stop or disappearance")
      ->envname("INVOKER_PEER_TIMEOUT");
}

}  // namespace

const char kExitStatusHelp[] =
    "Exit status: 0 done, 1 the call failed or a file could not be read or written, 2 bad "
    "arguments, 3 cannot connect or get a lease, 4 the timeout passed.";

void AddServerOptions(CLI::App* command, ServerSettings* settings) {
  command->add_option("--server", settings->server, "the invoker_server to talk to")
      ->type_name("HOST:PORT")
      ->envname("INVOKER_SERVER")
      ->required();
  AddTimeouts(command, settings);
  AddCredentialOptions(command, "", &settings->client.credentials);
}

void AddServersOption(CLI::App* command, ServerSettings* settings) {
  command
      ->add_option("--server,--servers", settings->server,
                   "the invoker_server to talk to, or several, or a cluster: "
                   "etcd://HOST:PORT/NAME, or file:///PATH with a server on each line")
      ->type_name("HOST:PORT[,HOST:PORT...]|URL")
      ->envname("INVOKER_SERVER")
      ->required();
  AddTimeouts(command, settings);
  AddCredentialOptions(command, "", &settings->client.credentials);
  AddClusterCredentialOptions(command, &settings->client.cluster);
}

bool NamesSeveral(const ServerSettings& settings) {
  return absl::StrContains(settings.server, ',') || absl::StrContains(settings.server, "://");
}

void AddFabricOptions(CLI::App* command, ServerSettings* settings) {
  command
      ->add_option("--provider", settings->client.provider,
                   "libfabric provider, one that the server offers; auto: the best that both sides "
                   "have, and the next if it does not work")
      ->type_name("auto|NAME")
      ->default_str(std::string(transport::kAutoProvider));
  command
      ->add_option("--fabric-address", settings->client.fabric_address,
                   "this side's IP address, interface or libfabric domain, for the fabrics that "
                   "have it; by default the one that routes to the server")
      ->type_name("ADDRESS|INTERFACE|DOMAIN");
  AddNotification(command, "--notify", &settings->client.notification,
                  "how a peer learns of a write");
  AddDataAuth(
      command, "--data-auth", &settings->client.data_auth,
      "how much of each message is to be under a keyed tag at least; a server may want more");
  AddBytes(
      command, "--pieces-up-to", &settings->client.pieces_up_to,
      "payloads of up to so many bytes go in pieces where the fabric can send them so; 0: each "
      "message in one write. By default a short trial decides");
}

void AddRetry(CLI::App* command, uint32_t* retry) {
  command
      ->add_option("--retry", *retry,
                   "how often to try again, on another executor, what has ended because its "
                   "executor was lost. The function may then run more than once; one that has "
                   "failed is not tried again")
      ->type_name("N")
      ->capture_default_str();
}

void AddWorkerOption(CLI::App* command, std::vector<std::string>* options) {
  command
      ->add_option("--worker", *options,
                   "an option of invoker_server's: --worker=--functions=libmine.so; repeat it for "
                   "several")
      ->allow_extra_args(false)
      ->type_name("OPTION");
}

std::unique_ptr<Client> Connect(const ServerSettings& settings, int* exit_code) {
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(settings.server, settings.client);
  if (client.ok()) return *std::move(client);
  *exit_code = FailConnect(client.status());
  return nullptr;
}

int PrintAnswer(const ServerSettings& settings, const AskBootstrap& ask) {
  const absl::Duration timeout = settings.client.connect_timeout;
  absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> client =
      bootstrap::BootstrapClient::Connect(settings.server, timeout, settings.client.credentials);
  if (!client.ok()) return FailConnect(client.status());
  const absl::StatusOr<std::string> text = ask(client->get(), timeout);
  if (!text.ok()) return FailConnect(text.status());
  const absl::Status printed = Print(*text);
  return printed.ok() ? kExitOk : Fail(printed);
}

int FailConnect(const absl::Status& status) {
  LogError(status.message());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitCannotConnect;
}

int Fail(const absl::Status& status) { return Fail(status, GetCallFate(status)); }

int Fail(const absl::Status& status, CallFate fate) {
  LogError(absl::StrCat(status.message(), fate == CallFate::kUnknown
                                              ? ""
                                              : absl::StrCat(" [", CallFateName(fate), "]")));
  return absl::IsDeadlineExceeded(status) ? kExitTimeout : kExitFailed;
}

absl::Status Print(absl::string_view text) {
  return WriteAll(STDOUT_FILENO, "standard output", text);
}

}  // namespace invoker::tools
