// `invoker drops`: what peers have sent to a worker over its fabrics that led to nothing, by
// reason. Asks the bootstrap only, so it needs no fabric.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
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

absl::StatusOr<std::string> Ask(const Settings& settings, bootstrap::BootstrapClient* client,
                                absl::Duration timeout) {
  absl::StatusOr<std::vector<DropCount>> drops = client->GetDropped(timeout);
  if (!drops.ok()) return drops.status();
  return settings.json ? AsJson(client->target(), *drops) : AsTable(*drops);
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
  return [settings] { return PrintAnswer(*settings, Ask); };
}

}  // namespace invoker::tools
