#include "tools/lease_settings.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/log/log.h"

namespace invoker::tools {
namespace {

void AddPolling(CLI::App* command, CLI::Option* lease, Polling* polling) {
  static const std::map<std::string, Polling> kNames = {
      {"hot", Polling::kHot}, {"warm", Polling::kWarm}, {"adaptive", Polling::kAdaptive}};
  command
      ->add_option_function<std::string>(
          "--polling",
          [polling](const std::string& text) {
            const auto found = kNames.find(text);
            if (found == kNames.end()) {
              throw CLI::ValidationError(
                  "--polling", absl::StrCat("\"", text, "\" is not one of hot, warm, adaptive"));
            }
            *polling = found->second;
          },
          "what an executor does while it has nothing to run: poll, sleep, or poll for "
          "--hot-timeout and then sleep. By default as the server says")
      ->type_name("hot|warm|adaptive")
      ->needs(lease);
}

}  // namespace

void AddLeaseOptions(CLI::App* command, LeaseSettings* settings) {
  LeaseOptions* options = &settings->options;
  CLI::Option* lease = command->add_flag(
      "--lease", settings->lease,
      "call executors of one's own, leased for this command, each a process; by default those that "
      "the server shares among its clients");
  command->add_option("--executors", options->executors, "how many to lease")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 16))
      ->capture_default_str()
      ->needs(lease);
  command
      ->add_option("--at-least", options->at_least,
                   "so many of them will do, where several servers have not enough; 0: all")
      ->type_name("N")
      ->capture_default_str()
      ->needs(lease);
  command
      ->add_option(
          "--spread", options->spread,
          "\"server\" or the name of a label: spread the executors evenly over the servers, "
          "or over the label's values")
      ->type_name("NAME")
      ->needs(lease);
  command
      ->add_flag("--replace", options->replace,
                 "take other executors in place of those whose server is lost")
      ->needs(lease);
  AddLabels(
      command, &options->labels,
      "KEY=VALUE, which the cluster's members must have that are asked; repeat it for several")
      ->needs(lease);
  AddBytes(command, "--memory", &options->memory_bytes,
           "for each executor; 0: as much as the server says")
      ->needs(lease);
  AddPolling(command, lease, &options->polling);
  AddDuration(command, "--hot-timeout", &options->hot_timeout,
              "with --polling=adaptive: how long to poll after the last call")
      ->needs(lease);
  AddDuration(command, "--ttl", &options->ttl, "the lease ends after it; 0: the server's longest")
      ->needs(lease);
  AddDuration(command, "--call-limit", &options->call_limit,
              "a function that runs longer ends the lease; 0: the server's longest")
      ->needs(lease);
  AddDuration(command, "--wait", &options->wait, "how long to wait in line if not enough is free")
      ->needs(lease);
  command->add_option("--tenant", options->tenant, "whose bill it is; see invoker usage")
      ->type_name("NAME")
      ->needs(lease);
  command
      ->add_option("--upload", settings->uploads,
                   "a library with functions, to load into the executors; may be given again. The "
                   "server must allow it")
      ->type_name("FILE")
      ->needs(lease);
}

std::unique_ptr<ClientGroup> AcquireLeases(const ServerSettings& server,
                                           const LeaseSettings& settings, int* exit_code) {
  LeaseOptions options = settings.options;
  options.client = server.client;
  options.on_queued = [](uint32_t ahead) {
    LogInfo(absl::StrCat("not enough is free: waiting in line, behind ", ahead, " other",
                         ahead == 1 ? "" : "s"));
  };
  absl::StatusOr<std::unique_ptr<ClientGroup>> group = ClientGroup::Acquire(server.server, options);
  if (!group.ok()) {
    *exit_code = FailConnect(group.status());
    return nullptr;
  }
  for (const std::string& library : settings.uploads) {
    const absl::Status status = (*group)->Upload(library);
    if (status.ok()) continue;
    *exit_code = Fail(
        absl::Status(status.code(), absl::StrCat("--upload=", library, ": ", status.message())));
    return nullptr;
  }
  return *std::move(group);
}

void ReleaseLeases(ClientGroup* group, bool wanted) {
  const std::vector<absl::StatusOr<LeaseEnd>> ends = group->Release();
  const std::vector<std::shared_ptr<Lease>> leases = group->leases();
  if (!wanted) return;
  for (size_t i = 0; i < ends.size(); ++i) {
    const Lease& lease = *leases[i];
    if (!ends[i].ok()) {
      LogWarning(absl::StrCat("no bill: ", ends[i].status().message()));
    } else {
      LogInfo(absl::StrCat("bill of ", lease.server(), " for ", lease.size(), " executor",
                           lease.size() == 1 ? "" : "s", ": ", UsageText(ends[i]->usage)));
    }
  }
}

std::string UsageText(const ResourceUsage& usage) {
  return absl::StrCat(usage.calls, usage.calls == 1 ? " call" : " calls", ", function time ",
                      absl::FormatDuration(usage.function_time), ", polling ",
                      absl::FormatDuration(usage.polling_time), ", processor ",
                      absl::FormatDuration(usage.cpu_time), ", leased ",
                      absl::FormatDuration(usage.lease_time), ", ", usage.bytes_in, " bytes in, ",
                      usage.bytes_out, " bytes out");
}

}  // namespace invoker::tools
