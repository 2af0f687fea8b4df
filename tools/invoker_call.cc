// `invoker call`: one call, from a file or pipe to a file or pipe.

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/log/log.h"
#include "tools/files.h"
#include "tools/invoker_cli.h"
#include "tools/lease_settings.h"

namespace invoker::tools {
namespace {

struct Settings {
  ServerSettings server;
  LeaseSettings lease;
  std::string function;
  std::string input;
  std::string output = "-";
  absl::Duration timeout = absl::InfiniteDuration();
  uint64_t response_capacity = 0;
  uint32_t retry = 0;
  bool verbose = false;
};

// The most for an input or an answer: more than any machine has memory for both of.
constexpr uint64_t kMostBytes = 1ull << 40;

absl::StatusOr<std::string> TakeInput(const std::string& path) {
  if (!path.empty()) return ReadInput(path, kMostBytes);
  // Nobody means to type a request: without a word about the input, a terminal stands for none.
  if (isatty(STDIN_FILENO)) return std::string();
  return ReadInput("-", kMostBytes);
}

int Write(const std::string& path, absl::string_view answer) {
  const absl::Status written = WriteOutput(path, answer);
  return written.ok() ? kExitOk : Fail(written);
}

// What the session's windows do not take is read and written where it is.
int CallLarge(const std::string& output, Client* client, const RemoteFunction& function,
              absl::string_view input, uint64_t capacity, CallOptions options) {
  const std::unique_ptr<std::byte[]> room(
      capacity <= kMostBytes ? new (std::nothrow) std::byte[capacity] : nullptr);
  if (room == nullptr) {
    return Fail(absl::ResourceExhaustedError(
        absl::StrCat("there is no memory for an answer of ", capacity, " bytes")));
  }
  options.output = CallOutput(room.get(), capacity);
  const absl::StatusOr<Response> response = client->Invoke(function, input, options);
  if (!response.ok()) return Fail(response.status());
  return Write(output, response->text());
}

int CallWith(const Settings& settings, Client* client, absl::string_view input) {
  if (settings.verbose) {
    LogInfo(absl::StrCat("connected over ", client->fabric_choice()));
    if (!client->downgrade_reason().empty()) LogInfo(client->downgrade_reason());
  }
  const absl::StatusOr<RemoteFunction> function = client->Function(settings.function);
  if (!function.ok()) return Fail(function.status());

  CallOptions options;
  options.timeout = settings.timeout;
  const uint64_t window = client->max_payload();
  const uint64_t capacity = settings.response_capacity != 0
                                ? settings.response_capacity
                                : std::max<uint64_t>(window, input.size());
  if (capacity > window || input.size() > window) {
    return CallLarge(settings.output, client, *function, input, capacity, options);
  }
  // Nothing else is under way in this session, so the answer may take all of the window.
  options.response_capacity = static_cast<uint32_t>(capacity);
  const absl::StatusOr<Response> response = client->Invoke(*function, input, options);
  if (!response.ok()) return Fail(response.status());
  return Write(settings.output, response->text());
}

// On any of the servers, and, if that is wanted, on another one after the first has been lost.
int CallGroup(const Settings& settings, ClientGroup* group, absl::string_view input) {
  uint64_t window = kMostBytes;
  for (size_t i = 0; i < group->size(); ++i) {
    const Client& client = group->client(i);
    window = std::min(window, client.max_payload());
    if (settings.verbose) {
      LogInfo(absl::StrCat("connected to ", client.server(), " over ", client.fabric_choice()));
    }
  }
  const absl::StatusOr<GroupFunction> function = group->Function(settings.function);
  if (!function.ok()) return Fail(function.status());
  if (std::max<uint64_t>(settings.response_capacity, input.size()) > window) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("with several servers, or with --retry, input and answer must fit into the "
                     "sessions' windows: at most ",
                     window, " bytes each (--window on the servers)")));
  }
  CallOptions options;
  options.timeout = settings.timeout;
  options.retry = settings.retry;
  options.response_capacity =
      static_cast<uint32_t>(settings.response_capacity != 0 ? settings.response_capacity : window);
  const absl::StatusOr<Response> response = group->Invoke(*function, input, options);
  if (!response.ok()) return Fail(response.status());
  return Write(settings.output, response->text());
}

int Run(const Settings& settings) {
  absl::StatusOr<std::string> input = TakeInput(settings.input);
  if (!input.ok()) return Fail(input.status());
  // Before the call, since a call whose answer cannot be kept had better not be made.
  if (absl::Status status = CheckOutput(settings.output); !status.ok()) return Fail(status);
  int exit_code = kExitOk;
  if (!settings.lease.lease && (NamesSeveral(settings.server) || settings.retry > 0)) {
    absl::StatusOr<std::unique_ptr<ClientGroup>> group =
        ClientGroup::Connect(settings.server.server, settings.server.client);
    return group.ok() ? CallGroup(settings, group->get(), *input) : FailConnect(group.status());
  }
  if (!settings.lease.lease) {
    const std::unique_ptr<Client> client = Connect(settings.server, &exit_code);
    return client == nullptr ? exit_code : CallWith(settings, client.get(), *input);
  }
  const std::unique_ptr<ClientGroup> group =
      AcquireLeases(settings.server, settings.lease, &exit_code);
  if (group == nullptr) return exit_code;
  exit_code = settings.retry > 0 ? CallGroup(settings, group.get(), *input)
                                 : CallWith(settings, &group->client(0), *input);
  ReleaseLeases(group.get(), settings.verbose);
  return exit_code;
}

}  // namespace

Command AddCallCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "call",
      "Calls a function and writes its answer. A file is written whole and only if the call "
      "succeeds.");
  (*command)
      ->add_option("NAME", settings->function, "the function; see invoker functions")
      ->required();
  AddServersOption(*command, &settings->server);
  AddFabricOptions(*command, &settings->server);
  (*command)
      ->add_option("--input", settings->input,
                   "what the function gets; - is standard input. By default standard input, or "
                   "nothing if that is a terminal")
      ->type_name("FILE|-");
  (*command)
      ->add_option("--output", settings->output, "where the answer goes; - is standard output")
      ->type_name("FILE|-")
      ->capture_default_str();
  AddDuration(*command, "--timeout", &settings->timeout, "for the call");
  AddRetry(*command, &settings->retry);
  AddBytes(
      *command, "--response-capacity", &settings->response_capacity,
      "room for the answer; 0: as much as the session's window has, or as the input if that is "
      "more. What is larger than the window goes past it");
  AddLeaseOptions(*command, &settings->lease);
  (*command)->add_flag("-v,--verbose", settings->verbose,
                       "say on standard error which fabric is used, and why, and what a lease "
                       "cost");
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
