// `invoker members`: the members of a cluster, as a client finds them now.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "src/cluster/member_watch.h"
#include "tools/invoker_cli.h"
#include "tools/security_options.h"

namespace invoker::tools {
namespace {

struct Settings {
  std::string cluster;
  ClusterCredentials credentials;
  absl::Duration timeout = absl::Seconds(10);
  bool json = false;
};

std::string Labels(const cluster::Member& member) {
  return absl::StrJoin(member.labels, ",", absl::PairFormatter("="));
}

std::string AsLine(const cluster::Member& member) {
  return absl::StrCat(member.server,
                      member.incarnation == 0
                          ? ""
                          : absl::StrCat("  version ", absl::Utf8SafeCEscape(member.version), "  ",
                                         member.executors, " shared, ", member.cores, " to lease  ",
                                         member.functions.size(), " functions  ",
                                         absl::Utf8SafeCEscape(Labels(member))),
                      "\n");
}

nlohmann::ordered_json AsJson(const cluster::Member& member) {
  nlohmann::ordered_json entry;
  entry["server"] = member.server;
  if (member.incarnation == 0) return entry;
  entry["incarnation"] = cluster::FormatIncarnation(member.incarnation);
  entry["epoch"] = member.epoch;
  entry["version"] = member.version;
  entry["fabrics"] = member.fabrics;
  entry["executors"] = member.executors;
  entry["cores"] = member.cores;
  entry["memory"] = member.memory_bytes;
  entry["python"] = member.python;
  entry["functions"] = member.functions;
  entry["labels"] = member.labels;
  return entry;
}

int Run(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch =
      cluster::MemberWatch::Start(settings.cluster, settings.credentials);
  if (!watch.ok()) return FailConnect(watch.status());
  const absl::StatusOr<std::vector<cluster::Member>> members =
      (*watch)->AwaitMembers(settings.timeout);
  if (!members.ok()) return FailConnect(members.status());
  std::string text;
  for (const cluster::Member& member : *members) {
    absl::StrAppend(
        &text,
        settings.json
            ? AsJson(member).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
            : AsLine(member));
  }
  const absl::Status printed = Print(text);
  return printed.ok() ? kExitOk : Fail(printed);
}

}  // namespace

Command AddMembersCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "members", "Lists the members of a cluster, one a line. Waits until there is one.");
  (*command)
      ->add_option("--server,--servers", settings->cluster,
                   "the cluster: in etcd, in a file, or a list")
      ->type_name("etcd://HOST:PORT/NAME")
      ->envname("INVOKER_SERVER")
      ->required();
  AddDuration(*command, "--connect-timeout", &settings->timeout, "how long to wait for a member");
  AddClusterCredentialOptions(*command, &settings->credentials);
  (*command)->add_flag("--json", settings->json, "print a line of JSON for each instead");
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
