// `invoker fabrics`: every fabric of this machine, what it claims, what it does, and what Invoker
// will do on it.

#include "tools/invoker_fabrics.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/transport/self_test/self_test_process.h"
#include "tools/doctor/machine.h"
#include "tools/invoker_cli.h"
#include "tools/security_options.h"

extern char** environ;

namespace invoker::tools {
namespace {

struct Settings {
  std::string provider;
  bool verify = false;
  bool json = false;
  std::string server;
  ClientCredentials credentials;
  absl::Duration timeout = absl::Seconds(10);
};

FabricEnvironment ReadEnvironment() {
  FabricEnvironment environment;
  const uint32_t version = fi_version();
  environment.libfabric_version = absl::StrCat(FI_MAJOR(version), ".", FI_MINOR(version));
  for (char** each = environ; *each != nullptr; ++each) {
    if (absl::StartsWith(*each, "FI_")) environment.variables.push_back(*each);
  }
  rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    environment.locked_memory = limit.rlim_cur;
  }
  return environment;
}

std::vector<AbsentProvider> FindAbsent(const std::vector<transport::FabricReport>& present) {
  std::set<std::string> names;
  for (const transport::FabricReport& fabric : present) names.insert(fabric.provider);
  std::vector<AbsentProvider> absent;
  for (const transport::ProfileRow& row : transport::Rows()) {
    const std::string name(row.provider);
    if (names.count(name) == 0) absent.push_back({name, std::string(row.absent_hint)});
  }
  return absent;
}

bool Works(const Settings& settings, const transport::FabricReport& fabric) {
  if (!fabric.usable.ok()) return false;
  return !settings.verify || (fabric.observed.has_value() && fabric.observed->status.ok());
}

// What to look at when a fabric is not there that should be.
std::string WhatToCheck(const FabricEnvironment& environment) {
  std::string text;
  if (const char* filter = getenv("FI_PROVIDER"); filter != nullptr) {
    absl::StrAppend(&text, "\n  FI_PROVIDER=", filter,
                    " is set, and hides every other provider: try without");
  }
  if (environment.locked_memory.has_value() && *environment.locked_memory < kLittleLockedMemory) {
    absl::StrAppend(&text, "\n  this process may lock ", *environment.locked_memory,
                    " bytes of memory, and RDMA devices need more: ulimit -l unlimited (see "
                    "/etc/security/limits.conf)");
  }
  absl::StrAppend(&text,
                  "\n  RDMA cards need the packages rdma-core and ibverbs-providers, their kernel "
                  "driver (modprobe), and an IP address; `ibv_devices` lists them. Without a card: "
                  "modprobe rdma_rxe, then rdma link add");
  absl::StrAppend(&text, "\n  libfabric ", environment.libfabric_version,
                  " is in use; `fi_info -l` (package libfabric-bin) lists what it was built with, "
                  "`fi_info` what it finds");
  return text;
}

// The named provider has no endpoint here.
absl::Status NotHere(const Settings& settings, const FabricsOutcome& outcome,
                     const std::vector<transport::FabricReport>& others) {
  std::string text = absl::StrCat("no RDM endpoint of provider \"", settings.provider,
                                  "\" on this "
                                  "machine");
  bool known = false;
  for (const AbsentProvider& absent : outcome.absent) {
    if (absent.provider != settings.provider) continue;
    known = true;
    absl::StrAppend(&text, ". It ", absent.hint);
  }
  std::set<std::string> present;
  for (const transport::FabricReport& fabric : others) present.insert(fabric.provider);
  absl::StrAppend(&text,
                  "\n  there are: ", present.empty() ? "none" : absl::StrJoin(present, ", "));
  if (!known) {
    absl::StrAppend(&text, "\n  Invoker also knows:");
    for (const AbsentProvider& absent : outcome.absent) {
      absl::StrAppend(&text, "\n    ", absent.provider, ": ", absent.hint);
    }
  }
  return absl::NotFoundError(absl::StrCat(text, WhatToCheck(outcome.environment)));
}

absl::Status NothingWorks(const Settings& settings, const FabricsOutcome& outcome) {
  std::string text = absl::StrCat("no fabric of this machine ",
                                  settings.verify ? "passed its self-test" : "can be used");
  if (!settings.provider.empty()) absl::StrAppend(&text, " (provider ", settings.provider, ")");
  for (const transport::FabricReport& fabric : outcome.fabrics) {
    const absl::Status& why =
        fabric.usable.ok() && fabric.observed.has_value() ? fabric.observed->status : fabric.usable;
    absl::StrAppend(&text, "\n  ", fabric.provider, " at ", RequestFor(fabric).address, ": ",
                    why.message());
  }
  if (settings.provider.empty()) {
    for (const AbsentProvider& absent : outcome.absent) {
      absl::StrAppend(&text, "\n  ", absent.provider, " ", absent.hint);
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(text, WhatToCheck(outcome.environment)));
}

absl::StatusOr<std::vector<transport::FabricReport>> DescribeAll(
    const std::vector<transport::RdmaDevice>& devices) {
  absl::StatusOr<std::vector<transport::ListedFabric>> listed = transport::ListFabrics("");
  if (!listed.ok()) return listed.status();
  std::vector<transport::FabricReport> reports;
  for (const transport::ListedFabric& each : *listed)
    reports.push_back(DescribeFabric(each, devices));
  return reports;
}

int Run(const Settings& settings) {
  absl::StatusOr<FabricsOutcome> here = LookForFabrics();
  if (!here.ok()) return Fail(here.status());
  FabricsOutcome& outcome = *here;
  // All of them: what is absent is known only then.
  std::vector<transport::FabricReport> all = std::exchange(outcome.fabrics, {});
  bool works = false;
  for (transport::FabricReport& fabric : all) {
    if (!settings.provider.empty() && settings.provider != fabric.provider) continue;
    if (settings.verify && fabric.usable.ok()) {
      // One at a time: a machine with few cores would only measure how they disturb each other.
      auto observed = transport::RunSelfTestsApart({RequestFor(fabric)}, {});
      if (!observed.ok()) return Fail(observed.status());
      fabric.observed = observed->front();
    }
    works = works || Works(settings, fabric);
    outcome.fabrics.push_back(fabric);
  }
  absl::Status status;
  if (outcome.fabrics.empty() && !settings.provider.empty()) {
    status = NotHere(settings, outcome, all);
  } else if (!works) {
    status = NothingWorks(settings, outcome);
  }
  if (!settings.server.empty()) {
    outcome.server = settings.server;
    const absl::Status asked = TryServer(settings.server, settings.provider, settings.credentials,
                                         settings.timeout, &outcome.server_fabrics);
    if (!asked.ok()) return FailConnect(asked);
    const auto answered = [](const ServerFabric& fabric) { return fabric.status.ok(); };
    if (status.ok() &&
        std::none_of(outcome.server_fabrics.begin(), outcome.server_fabrics.end(), answered)) {
      status = absl::UnavailableError(
          absl::StrCat("no fabric of the worker ", settings.server, " could be used from here"));
    }
  }
  // The document is complete even if there is nothing in it; people want the reason instead.
  const bool print = settings.json || !outcome.fabrics.empty() || !outcome.server_fabrics.empty();
  if (print) {
    const absl::Status printed =
        Print(settings.json ? FabricsAsJson(outcome) : FabricsAsText(outcome));
    if (!printed.ok()) return Fail(printed);
  }
  if (status.ok()) return kExitOk;
  Fail(status);
  return kExitFailed;
}

}  // namespace

absl::StatusOr<FabricsOutcome> LookForFabrics() {
  FabricsOutcome outcome;
  outcome.environment = ReadEnvironment();
  // A machine whose devices cannot be asked is described without them.
  if (auto devices = transport::ListRdmaDevices(); devices.ok()) {
    outcome.devices = *std::move(devices);
  }
  absl::StatusOr<std::vector<transport::FabricReport>> all = DescribeAll(outcome.devices);
  if (!all.ok()) return all.status();
  outcome.absent = FindAbsent(*all);
  outcome.fabrics = *std::move(all);
  return outcome;
}

Command AddFabricsCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "fabrics",
      "Lists the fabrics of this machine: what each claims, and what Invoker will do on it.");
  (*command)
      ->add_option("--provider", settings->provider, "only this libfabric provider's fabrics")
      ->type_name("NAME");
  CLI::Option* const verify = (*command)->add_flag(
      "--verify", settings->verify,
      "try each: two endpoints of this process write to each other (some seconds in all)");
  (*command)->add_flag("--json", settings->json, "print all that is known as a JSON document");
  (*command)
      ->add_option("--server", settings->server,
                   "with --verify: also open a session over each fabric that this invoker_server "
                   "offers")
      ->type_name("HOST:PORT")
      ->needs(verify);
  AddDuration(*command, "--connect-timeout", &settings->timeout,
              "for each step of connecting to the server");
  AddCredentialOptions(*command, "", &settings->credentials);
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
