// `invoker doctor`: one page on what works here, what does not, and what helps.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "invoker/version.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/messages/compatibility.h"
#include "src/transport/self_test/self_test_process.h"
#include "tools/doctor/credentials.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/invoker_cli.h"
#include "tools/invoker_fabrics.h"
#include "tools/security_options.h"

namespace invoker::tools {
namespace {

struct Settings {
  std::string server;
  ClientCredentials credentials;
  absl::Duration timeout = absl::Seconds(10);
  bool json = false;
};

// Each provider once: it is offered if it works at one place.
void TryFabrics(const FabricsOutcome& here, std::vector<Finding>* findings) {
  std::map<std::string, Finding> of_provider;
  bool works = false;
  for (const transport::FabricReport& fabric : here.fabrics) {
    absl::Status status = fabric.usable;
    std::string notification;
    if (status.ok()) {
      const auto observed = transport::RunSelfTestsApart({RequestFor(fabric)}, {});
      status = observed.ok() ? observed->front().status : observed.status();
      notification = std::string(NotificationName(fabric.profile.notification));
    }
    works = works || status.ok();
    Finding& finding = of_provider[fabric.provider];
    if (finding.subject.empty() || (status.ok() && finding.kind != FindingKind::kOk)) {
      finding = {FindingKind::kOk, "fabric",
                 absl::StrCat(fabric.provider, " is offered, with ", notification)};
      if (!status.ok()) {
        finding.kind = FindingKind::kNote;
        finding.text = absl::StrCat(fabric.provider, " is refused: ", status.message());
        finding.help = absl::StrCat("invoker fabrics --verify --provider='", fabric.provider, "'");
      }
    }
  }
  for (auto& [provider, finding] : of_provider) findings->push_back(std::move(finding));
  for (const AbsentProvider& absent : here.absent) {
    findings->push_back({FindingKind::kNote, "fabric",
                         absl::StrCat(absent.provider, " is not here: it ", absent.hint)});
  }
  if (works) return;
  findings->push_back(
      {FindingKind::kProblem, "fabrics", "none works, so nothing can be called over this machine",
       here.environment.variables.empty()
           ? "invoker fabrics --verify"
           : absl::StrCat("try without ", absl::StrJoin(here.environment.variables, ", "))});
}

void AskServer(const Settings& settings, std::vector<Finding>* findings) {
  const auto problem = [findings](const absl::Status& status, std::string help) {
    findings->push_back(
        {FindingKind::kProblem, "server", std::string(status.message()), std::move(help)});
  };
  const absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> client =
      bootstrap::BootstrapClient::Connect(settings.server, settings.timeout, settings.credentials);
  if (!client.ok()) return problem(client.status(), "");
  const absl::StatusOr<bootstrap::WorkerInfo> info = (*client)->GetWorkerInfo(settings.timeout);
  if (!info.ok()) return problem(info.status(), "");
  findings->push_back(
      {FindingKind::kOk, "server",
       absl::StrCat(settings.server, " has release ", info->software_version, ", ",
                    bootstrap::DescribeVersions(info->protocol_versions), "; both speak version ",
                    bootstrap::AgreeOnVersion(info->protocol_versions, {}).value_or(0))});
  if (info->draining) {
    findings->push_back({FindingKind::kNote, "server", "it is stopping, and takes no new calls"});
  }
  for (const bootstrap::UnservedFabric& each : info->unserved) {
    findings->push_back({FindingKind::kNote, "its fabrics",
                         absl::StrCat(each.provider, " is not offered there: ", each.reason),
                         "invoker fabrics --verify, on the server's machine"});
  }
  std::vector<ServerFabric> fabrics;
  const absl::Status asked =
      TryServer(settings.server, "", settings.credentials, settings.timeout, &fabrics);
  if (!asked.ok()) return problem(asked, "");
  bool works = false;
  for (const ServerFabric& each : fabrics) {
    works = works || each.status.ok();
    findings->push_back(
        each.status.ok()
            ? Finding{FindingKind::kOk, "its fabrics",
                      absl::StrCat(each.provider, ": a round trip takes ",
                                   static_cast<int64_t>(each.round_trip_us * 10) / 10.0,
                                   " us, with ", each.notification)}
            : Finding{FindingKind::kNote, "its fabrics",
                      absl::StrCat(each.provider, ": ", each.status.message())});
  }
  if (!works)
    problem(absl::UnavailableError("no fabric of its can be used from here"),
            "look at the notes above");
}

int Run(const Settings& settings) {
  std::vector<Finding> findings;
  const absl::StatusOr<FabricsOutcome> here = LookForFabrics();
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>()};
  findings.push_back(ExamineLibfabric(text, here.ok() ? here->environment.libfabric_version : ""));
  findings.push_back({FindingKind::kOk, "release",
                      absl::StrCat(Version(), ", ", bootstrap::DescribeVersions({}))});
  if (here.ok()) {
    for (const std::string& variable : here->environment.variables) {
      findings.push_back(
          {FindingKind::kNote, "variable", absl::StrCat(variable, " changes what libfabric does")});
    }
    TryFabrics(*here, &findings);
    findings.push_back(
        ExamineLockedMemory(here->environment.locked_memory, !here->devices.empty()));
  } else {
    findings.push_back({FindingKind::kProblem, "fabrics", std::string(here.status().message())});
  }
  findings.push_back(ExamineHugePages(""));
  findings.push_back(ExamineControlGroups(""));
  for (Finding& finding : ExamineClock("")) findings.push_back(std::move(finding));
  findings.push_back(ExaminePorts(""));
  for (Finding& finding : ExamineCredentials(settings.credentials, absl::Now())) {
    findings.push_back(std::move(finding));
  }
  for (Finding& finding : ExamineServersFile(kServersFile, absl::Now())) {
    findings.push_back(std::move(finding));
  }
  if (!settings.server.empty()) AskServer(settings, &findings);
  const absl::Status printed = Print(settings.json ? FindingsAsJson(Version(), findings)
                                                   : FindingsAsText(Version(), findings));
  if (!printed.ok()) return Fail(printed);
  return HasProblem(findings) ? kExitFailed : kExitOk;
}

}  // namespace

Command AddDoctorCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "doctor",
      "Prints one page: what works on this machine, what does not, and what helps. Tries each "
      "fabric. The exit status is 1 if there is a problem.");
  (*command)
      ->add_option("--server", settings->server,
                   "also ask this invoker_server, and open a session over each of its fabrics")
      ->type_name("HOST:PORT")
      ->envname("INVOKER_SERVER");
  AddDuration(*command, "--connect-timeout", &settings->timeout,
              "for each step of connecting to the server");
  AddCredentialOptions(*command, "", &settings->credentials);
  (*command)->add_flag("--json", settings->json, "print a JSON document instead");
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
