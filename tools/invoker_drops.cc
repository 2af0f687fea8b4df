// `invoker drops`: what peers have sent to a worker over its fabrics that led to nothing, by
// reason. Asks the bootstrap only, so it needs no fabric.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/bootstrap/client/client.h"
#include "tools/invoker_cli.h"

namespace invoker::tools {
namespace {

using bootstrap::DropCount;

struct Settings {
  ServerSettings server;
  bool json = false;
};

std::string AsTable(const std::vector<DropCount>& drops) {
  std::string text;
  for (const DropCount& drop : drops) {
    absl::StrAppendFormat(&text, "%-18s %d\n", drop.reason, drop.count);
  }
  return text;
}

std::string AsJson(const std::string& server, const std::vector<DropCount>& drops) {
  nlohmann::ordered_json line;
  line["server"] = server;
  line["dropped"] = nlohmann::ordered_json::object();
  for (const DropCount& drop : drops) line["dropped"][drop.reason] = drop.count;
  // A name with bytes that are not UTF-8 must not end the program.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int Run(const Settings& settings) {
  const absl::Duration timeout = settings.server.client.connect_timeout;
  absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> client =
      bootstrap::BootstrapClient::Connect(settings.server.server, timeout,
                                          settings.server.client.credentials);
  if (!client.ok()) return FailConnect(client.status());
  absl::StatusOr<std::vector<DropCount>> drops = (*client)->GetDropped(timeout);
  if (!drops.ok()) return FailConnect(drops.status());
  const absl::Status printed =
      Print(settings.json ? AsJson((*client)->target(), *drops) : AsTable(*drops));
  return printed.ok() ? kExitOk : Fail(printed);
}

}  // namespace

Command AddDropsCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command =
      app->add_subcommand("drops",
                          "Prints how many messages the server's executors, leased ones "
                          "included, have dropped since its start, or refused as what no "
                          "client should send, by reason (docs/reference/errors.md says what each "
                          "means).");
  AddServerOptions(*command, &settings->server);
  (*command)->add_flag("--json", settings->json, "print one line of JSON instead");
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
