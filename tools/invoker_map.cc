// `invoker map`: one call for each file of a directory.

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invoker/client_group.h"
#include "src/invoke/wire/wire.h"
#include "src/log/log.h"
#include "tools/files.h"
#include "tools/interrupt.h"
#include "tools/invoker_cli.h"
#include "tools/lease_settings.h"
#include "tools/progress_bar.h"

namespace invoker::tools {
namespace {

// For each executor, so that it need not wait for the next one.
constexpr size_t kCallsPerExecutor = 2;

// So many cells as a window has for each of many executors; more would only wait for room.
constexpr uint32_t kMostInFlight = 1u << 20;

// How often a wait looks for Ctrl-C, and moves the clock of the progress bar.
constexpr absl::Duration kLook = absl::Milliseconds(100);

struct Settings {
  ServerSettings server;
  LeaseSettings lease;
  std::string function;
  std::string inputs;
  std::string outputs;
  size_t max_in_flight = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  uint32_t retry = 0;
  uint64_t response_capacity = 0;
  bool stop_on_error = false;
  bool quiet = false;
  bool verbose = false;
};

absl::Status ErrnoStatus(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " \"", path, "\""));
}

// The directory's regular files, by name, and links to such; no hidden ones.
absl::StatusOr<std::vector<std::string>> FilesIn(const std::string& directory) {
  DIR* entries = opendir(directory.c_str());
  if (entries == nullptr) return ErrnoStatus("read the directory", directory);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    struct stat file;
    if (name[0] == '.' || stat(absl::StrCat(directory, "/", name).c_str(), &file) != 0 ||
        !S_ISREG(file.st_mode)) {
      continue;
    }
    names.push_back(name);
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

bool AreTheSame(const std::string& a, const std::string& b) {
  struct stat here;
  struct stat there;
  return stat(a.c_str(), &here) == 0 && stat(b.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

// Makes sure of what can be known before anything has been called.
absl::Status PrepareOutputs(const Settings& settings, const std::vector<std::string>& names) {
  if (mkdir(settings.outputs.c_str(), 0777) != 0 && errno != EEXIST) {
    return ErrnoStatus("create the directory", settings.outputs);
  }
  struct stat outputs;
  if (stat(settings.outputs.c_str(), &outputs) == 0 && !S_ISDIR(outputs.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--outputs=", settings.outputs, " is there already, and is no directory"));
  }
  if (AreTheSame(settings.inputs, settings.outputs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--outputs=", settings.outputs,
                     " is the directory of the inputs, which the results would "
                     "replace, since they have their names; give another one"));
  }
  if (access(settings.outputs.c_str(), W_OK | X_OK) != 0) {
    return ErrnoStatus("write to the directory", settings.outputs);
  }
  for (const std::string& name : names) {
    const std::string output = absl::StrCat(settings.outputs, "/", name);
    if (AreTheSame(absl::StrCat(settings.inputs, "/", name), output)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", output,
                       "\" is a link to the input of that name, which the result would replace; "
                       "remove it, or give another directory"));
    }
    if (absl::Status status = CheckOutput(output); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::unique_ptr<ClientGroup> OpenGroup(const Settings& settings, int* exit_code) {
  if (settings.lease.lease) return AcquireLeases(settings.server, settings.lease, exit_code);
  absl::StatusOr<std::unique_ptr<ClientGroup>> group =
      ClientGroup::Connect(settings.server.server, settings.server.client);
  if (group.ok()) return *std::move(group);
  *exit_code = FailConnect(group.status());
  return nullptr;
}

absl::StatusOr<MapOptions> OptionsOf(const Settings& settings, const ClientGroup& group) {
  MapOptions options;
  options.max_in_flight =
      settings.max_in_flight != 0 ? settings.max_in_flight : kCallsPerExecutor * group.size();
  options.ordered = false;
  options.stop_on_error = settings.stop_on_error;
  options.call.timeout = settings.timeout;
  options.call.retry = settings.retry;
  uint64_t most = group.client(0).max_payload();
  for (size_t i = 1; i < group.size(); ++i) most = std::min(most, group.client(i).max_payload());
  if (settings.response_capacity > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("a response_capacity of ", settings.response_capacity,
                     " bytes is more than the session's window takes: at most ", most,
                     " (--window on the server)"));
  }
  // Nothing else is under way in these sessions, so the calls may share all of the window.
  const uint64_t share = (most + kHeaderBytes) * group.size() / options.max_in_flight;
  options.call.response_capacity = static_cast<uint32_t>(
      settings.response_capacity != 0
          ? settings.response_capacity
          : std::min(most, std::max<uint64_t>(share, 2 * kHeaderBytes) - kHeaderBytes));
  return options;
}

struct Failure {
  std::string name;
  absl::Status status;
};

struct Outcome {
  uint64_t done = 0;
  std::vector<Failure> failures;
  bool interrupted = false;
};

Outcome MapAll(const Settings& settings, const std::vector<std::string>& names,
               Interrupt* interrupt, MapRun* run) {
  ProgressBar bar(names.size(), !settings.quiet);
  Outcome outcome;
  const auto look_for_interrupt = [&] {
    if (outcome.interrupted || !interrupt->WaitFor(absl::ZeroDuration())) return;
    // What is under way ends; a second Ctrl-C does not wait for that.
    outcome.interrupted = true;
    run->Stop();
    bar.Say("interrupted: no more calls, but those under way end; Ctrl-C again gives them up");
  };
  while (true) {
    while (!run->Wait(kLook)) {
      look_for_interrupt();
      bar.Update(outcome.done, outcome.failures.size());
    }
    look_for_interrupt();
    const std::optional<MapResult> result = run->Next();
    if (!result.has_value()) return outcome;
    const std::string& name = names[result->index];
    const absl::Status status =
        result->response.ok()
            ? WriteOutput(absl::StrCat(settings.outputs, "/", name), result->response->text())
            : result->response.status();
    if (!status.ok()) outcome.failures.push_back({name, status});
    bar.Update(++outcome.done, outcome.failures.size());
  }
}

int Report(Outcome outcome, size_t files) {
  std::sort(outcome.failures.begin(), outcome.failures.end(),
            [](const Failure& a, const Failure& b) { return a.name < b.name; });
  for (const Failure& failure : outcome.failures) {
    Fail(absl::Status(failure.status.code(),
                      absl::StrCat(failure.name, ": ", failure.status.message())),
         GetCallFate(failure.status));
  }
  if (outcome.done == files && outcome.failures.empty()) return kExitOk;
  LogInfo(absl::StrCat(outcome.interrupted ? "interrupted: " : "", files,
                       " files: ", outcome.done - outcome.failures.size(), " done, ",
                       outcome.failures.size(), " failed, ", files - outcome.done, " not called"));
  return kExitFailed;
}

uint64_t MaxPayload(const ClientGroup& group) {
  uint64_t most = group.client(0).max_payload();
  for (size_t i = 1; i < group.size(); ++i) most = std::min(most, group.client(i).max_payload());
  return most;
}

absl::Status TooLarge(uint64_t bytes, uint64_t most) {
  return WithFate(absl::InvalidArgumentError(absl::StrCat(
                      bytes, " bytes are more than the sessions' windows take: at most ", most,
                      ". Start the server with a larger --window, or use invoker call, which has "
                      "no such limit")),
                  CallFate::kNotSent);
}

int Run(const Settings& settings) {
  const absl::StatusOr<std::vector<std::string>> names = FilesIn(settings.inputs);
  if (!names.ok()) return Fail(names.status());
  if (absl::Status status = PrepareOutputs(settings, *names); !status.ok()) {
    Fail(status);
    return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
  }
  if (names->empty()) {
    LogInfo(absl::StrCat("there are no files in \"", settings.inputs, "\""));
    return kExitOk;
  }
  int exit_code = kExitOk;
  const std::unique_ptr<ClientGroup> group = OpenGroup(settings, &exit_code);
  if (group == nullptr) return exit_code;
  if (settings.verbose) {
    for (size_t i = 0; i < group->size(); ++i) {
      const Client& client = group->client(i);
      LogInfo(absl::StrCat("executor ", client.executor(), " of ", client.server(), " over ",
                           client.fabric_choice()));
    }
  }
  const absl::StatusOr<GroupFunction> function = group->Function(settings.function);
  if (!function.ok()) return Fail(function.status());
  absl::StatusOr<MapOptions> options = OptionsOf(settings, *group);
  if (!options.ok()) return Fail(options.status());
  const uint64_t most = MaxPayload(*group);
  size_t next = 0;
  const auto source = [&]() -> std::optional<absl::StatusOr<MapInput>> {
    if (next == names->size()) return std::nullopt;
    absl::StatusOr<std::string> data =
        ReadInput(absl::StrCat(settings.inputs, "/", (*names)[next++]), kMaxWindowBytes);
    if (!data.ok()) return data.status();
    if (data->size() > most) return TooLarge(data->size(), most);
    return MapInput(*std::move(data));
  };
  Outcome outcome = [&] {
    // Before the first call.
    Interrupt interrupt;
    MapRun run = group->StartMap(*function, source, *std::move(options), names->size());
    return MapAll(settings, *names, &interrupt, &run);
  }();
  ReleaseLeases(group.get(), settings.verbose);
  return Report(std::move(outcome), names->size());
}

}  // namespace

Command AddMapCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "map",
      "Calls a function once for each file of a directory, on many executors at the same time, and "
      "writes each answer to a file of the same name. A file is written whole and only if its call "
      "succeeds. Nothing is called twice, but with --retry. On Ctrl-C no more calls are made. "
      "Files and answers must "
      "fit into the sessions' windows (the server's --window); invoker call has no such limit.");
  (*command)
      ->add_option("NAME", settings->function, "the function; see invoker functions")
      ->required();
  AddServersOption(*command, &settings->server);
  AddFabricOptions(*command, &settings->server);
  (*command)
      ->add_option("--inputs", settings->inputs,
                   "its files are what the function gets; hidden ones and directories are left out")
      ->type_name("DIRECTORY")
      ->required();
  (*command)
      ->add_option("--outputs", settings->outputs,
                   "where the answers go; created if it is not there")
      ->type_name("DIRECTORY")
      ->required();
  AddLeaseOptions(*command, &settings->lease);
  (*command)
      ->add_option("--max-in-flight", settings->max_in_flight,
                   "calls under way at once; 0: two for each executor")
      ->type_name("N")
      ->check(CLI::Range(0u, kMostInFlight))
      ->capture_default_str();
  AddDuration(*command, "--timeout", &settings->timeout, "for each call");
  AddRetry(*command, &settings->retry);
  AddBytes(*command, "--response-capacity", &settings->response_capacity,
           "room for each answer; 0: all of the sessions' windows, shared by the calls under way");
  (*command)->add_flag("--stop-on-error", settings->stop_on_error,
                       "after the first failure, call no more");
  (*command)->add_flag("-q,--quiet", settings->quiet, "no progress on standard error");
  (*command)->add_flag("-v,--verbose", settings->verbose,
                       "say on standard error which fabrics are used, and what leases cost");
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
