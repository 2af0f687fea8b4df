// `invoker functions`: what the worker can run. Asks the bootstrap only, so it needs no fabric.

#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/invoker_cli.h"

namespace invoker::tools {
namespace {

struct Settings {
  ServerSettings server;
  bool json = false;
  bool long_lines = false;
};

// The name and the signature on one line, and what the function does on the next.
std::string AsLines(const bootstrap::WorkerInfo& info, bool long_lines) {
  std::string text;
  for (const bootstrap::FunctionInfo& function : info.functions) {
    // What has no name is not for this client.
    if (function.name.empty()) continue;
    absl::StrAppend(&text, function.name);
    if (long_lines) {
      absl::StrAppend(
          &text, " ",
          function.signature.empty() ? "bytes" : absl::Utf8SafeCEscape(function.signature));
      if (!function.doc.empty())
        absl::StrAppend(&text, "\n    ", absl::Utf8SafeCEscape(function.doc));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string AsJson(const std::string& server, const bootstrap::WorkerInfo& info) {
  nlohmann::ordered_json line;
  line["server"] = server;
  line["provider"] = info.fabrics.front().identity.provider;
  line["providers"] = nlohmann::json::array();
  for (const bootstrap::FabricOffer& offer : info.fabrics) {
    line["providers"].push_back(offer.identity.provider);
  }
  line["executors"] = info.executors;
  line["window"] = info.window_bytes;
  line["version"] = info.software_version;
  line["functions"] = nlohmann::json::array();
  line["signatures"] = nlohmann::json::object();
  line["docs"] = nlohmann::json::object();
  for (const bootstrap::FunctionInfo& function : info.functions) {
    if (function.name.empty()) continue;
    line["functions"].push_back(function.name);
    if (!function.signature.empty()) line["signatures"][function.name] = function.signature;
    if (!function.doc.empty()) line["docs"][function.name] = function.doc;
  }
  // A name with bytes that are not UTF-8 must not end the program.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::string> Ask(const Settings& settings, bootstrap::BootstrapClient* client,
                                absl::Duration timeout) {
  absl::StatusOr<bootstrap::WorkerInfo> info = client->GetWorkerInfo(timeout);
  if (!info.ok()) return info.status();
  return settings.json ? AsJson(client->target(), *info) : AsLines(*info, settings.long_lines);
}

}  // namespace

Command AddFunctionsCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand("functions", "Lists the worker's functions, one name per line.");
  AddServerOptions(*command, &settings->server);
  (*command)->add_flag("--long", settings->long_lines,
                       "also print what each function takes, returns and does");
  (*command)->add_flag("--json", settings->json, "print one line of JSON instead");
  return [settings] { return PrintAnswer(*settings, Ask); };
}

}  // namespace invoker::tools
