#include "tools/configuration.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace invoker::tools {
namespace {

constexpr char kConfigOption[] = "--config";

std::string Variable(const std::string& name) {
  const char* value = getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// "--peer-timeout" -> "PREFIX_PEER_TIMEOUT".
std::string VariableOf(const Configuration& configuration, absl::string_view option) {
  std::string name = absl::AsciiStrToUpper(absl::StripPrefix(option, "--"));
  std::replace(name.begin(), name.end(), '-', '_');
  return configuration.variable_prefix + name;
}

// A value, and nothing but a comment behind it.
absl::StatusOr<std::string> ParseValue(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "\"")) {
    const std::string value(absl::StripAsciiWhitespace(text.substr(0, text.find(" #"))));
    if (value.empty()) return absl::InvalidArgumentError("there is no value behind =");
    return value;
  }
  const size_t end = text.find('"');
  if (end == absl::string_view::npos) return absl::InvalidArgumentError("a quote is not closed");
  const absl::string_view rest = absl::StripAsciiWhitespace(text.substr(end + 1));
  if (!rest.empty() && rest[0] != '#') {
    return absl::InvalidArgumentError("there is text behind the closing quote");
  }
  return std::string(text.substr(0, end));
}

// Fills in all but the place. False for a line without an entry.
absl::StatusOr<bool> ParseLine(absl::string_view line, ConfigurationEntry* entry) {
  line = absl::StripAsciiWhitespace(line);
  if (line.empty() || line[0] == '#' || line[0] == ';') return false;
  if (line[0] == '[') {
    if (line.back() != ']') return absl::InvalidArgumentError("a section is written [NAME]");
    entry->section = std::string(line.substr(1, line.size() - 2));
    return false;
  }
  const size_t equals = line.find('=');
  entry->name = std::string(absl::StripAsciiWhitespace(line.substr(0, equals)));
  if (equals == absl::string_view::npos || entry->name.empty()) {
    return absl::InvalidArgumentError("an option is written NAME = VALUE, a flag NAME = true");
  }
  std::replace(entry->name.begin(), entry->name.end(), '_', '-');
  absl::StatusOr<std::string> value =
      ParseValue(absl::StripLeadingAsciiWhitespace(line.substr(equals + 1)));
  if (!value.ok()) return value.status();
  entry->value = *std::move(value);
  return true;
}

// Null if there is none.
CLI::App* CommandNamed(CLI::App* app, absl::string_view name) {
  for (CLI::App* command : app->get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// The command line as far as it matters here.
struct CommandLine {
  std::set<const CLI::Option*> given;
  CLI::App* command = nullptr;  // null: none
  size_t after_command = 1;     // where options of the command may be added
  std::string config;
  bool config_given = false;
};

CommandLine Read(CLI::App* app, const std::vector<std::string>& arguments) {
  CommandLine line;
  for (size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty() || argument[0] != '-') {
      if (line.command != nullptr) continue;
      line.command = CommandNamed(app, argument);
      if (line.command != nullptr) line.after_command = i + 1;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name =
        absl::StartsWith(argument, "--") ? argument.substr(0, equals) : argument.substr(0, 2);
    if (name == kConfigOption) {
      line.config_given = true;
      if (equals != std::string::npos) {
        line.config = argument.substr(equals + 1);
      } else if (++i < arguments.size()) {
        line.config = arguments[i];
      }
      continue;
    }
    for (CLI::App* each : {app, line.command}) {
      if (each != nullptr) line.given.insert(each->get_option_no_throw(name));
    }
  }
  return line;
}

absl::StatusOr<std::vector<ConfigurationEntry>> ReadFor(const Configuration& configuration,
                                                        const CommandLine& line) {
  std::string path = line.config;
  if (!line.config_given) path = Variable(VariableOf(configuration, kConfigOption));
  const bool is_default = !line.config_given && path.empty();
  if (is_default) path = configuration.default_file;
  if (path.empty() || path == "none") return std::vector<ConfigurationEntry>();
  absl::StatusOr<std::vector<ConfigurationEntry>> entries = ReadConfiguration(path);
  if (is_default && absl::IsNotFound(entries.status())) return std::vector<ConfigurationEntry>();
  return entries;
}

// An option of the program or of the command that runs.
struct Setting {
  const CLI::Option* option;
  bool of_command;
  std::vector<std::string> values;
  std::string origin;
};

class Settings {
 public:
  Settings(CLI::App* app, const Configuration& configuration, const CommandLine& line)
      : app_(app), configuration_(configuration), line_(line) {}

  void TakeVariables() {
    for (CLI::App* from : {app_, line_.command}) {
      if (from == nullptr) continue;
      for (const CLI::Option* option : from->get_options()) {
        if (option->get_lnames().empty() || !option->get_configurable()) continue;
        if (line_.given.count(option) > 0 || !option->get_envname().empty()) continue;
        if (IsReadElsewhere(option)) continue;
        const std::string variable = VariableOf(configuration_, option->get_lnames()[0]);
        const std::string value = Variable(variable);
        if (value.empty()) continue;
        settings_.push_back({option, from != app_, {value}, variable});
      }
    }
  }

  // Those of a section before those above the first.
  absl::Status TakeEntries(const std::vector<ConfigurationEntry>& entries) {
    for (const bool in_section : {true, false}) {
      const size_t before = settings_.size();
      for (const ConfigurationEntry& entry : entries) {
        if (entry.section.empty() == in_section) continue;
        absl::Status status = Take(entry, before);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Without those that need what is not there.
  std::map<std::string, std::string> AddTo(std::vector<std::string>* arguments) const {
    std::map<std::string, std::string> origins;
    std::vector<std::string> of_app;
    std::vector<std::string> of_command;
    for (const Setting& setting : settings_) {
      const std::set<CLI::Option*> needs = setting.option->get_needs();
      if (!std::all_of(needs.begin(), needs.end(),
                       [this](const CLI::Option* each) { return IsSet(each); })) {
        continue;
      }
      const std::string name = "--" + setting.option->get_lnames()[0];
      origins[name] = setting.origin;
      for (const std::string& value : setting.values) {
        (setting.of_command ? of_command : of_app).push_back(absl::StrCat(name, "=", value));
      }
    }
    arguments->insert(arguments->begin() + static_cast<ptrdiff_t>(line_.after_command),
                      of_command.begin(), of_command.end());
    arguments->insert(arguments->begin() + 1, of_app.begin(), of_app.end());
    return origins;
  }

 private:
  bool IsReadElsewhere(const CLI::Option* option) const {
    const std::vector<std::string>& names = configuration_.read_elsewhere;
    return std::find(names.begin(), names.end(), option->get_lnames()[0]) != names.end();
  }

  bool IsSet(const CLI::Option* option) const {
    return line_.given.count(option) > 0 ||
           std::any_of(settings_.begin(), settings_.end(),
                       [option](const Setting& each) { return each.option == option; });
  }

  // The file's earlier entries of the same kind are behind the first `before`.
  absl::Status Take(const ConfigurationEntry& entry, size_t before) {
    const std::string name = "--" + entry.name;
    const auto problem = [&entry](absl::string_view text) {
      return absl::InvalidArgumentError(absl::StrCat(entry.place, ": ", text));
    };
    std::vector<CLI::App*> owners = {app_};
    if (entry.section.empty()) {
      for (CLI::App* each : app_->get_subcommands({})) owners.push_back(each);
    } else {
      owners = {CommandNamed(app_, entry.section)};
      if (owners[0] == nullptr) return problem(absl::StrCat("no command is named ", entry.section));
    }
    bool known = false;
    for (CLI::App* owner : owners) {
      const CLI::Option* option = owner->get_option_no_throw(name);
      if (option == nullptr) continue;
      if (!option->get_configurable()) return problem(name + " is for the command line only");
      known = true;
      if (owner == app_ || owner == line_.command) Set(option, owner != app_, entry, before);
    }
    if (known) return absl::OkStatus();
    return problem(absl::StrCat("there is no option ", name, "; see ", app_->get_name(), " ",
                                entry.section, entry.section.empty() ? "" : " ", "--help"));
  }

  void Set(const CLI::Option* option, bool of_command, const ConfigurationEntry& entry,
           size_t before) {
    const std::string variable = VariableOf(configuration_, option->get_lnames()[0]);
    if (line_.given.count(option) > 0 || !Variable(variable).empty()) return;
    for (size_t i = 0; i < settings_.size(); ++i) {
      if (settings_[i].option != option) continue;
      if (i >= before) settings_[i].values.push_back(entry.value);
      return;
    }
    settings_.push_back({option, of_command, {entry.value}, entry.place});
  }

  CLI::App* app_;
  const Configuration& configuration_;
  const CommandLine& line_;
  std::vector<Setting> settings_;
};

}  // namespace

absl::StatusOr<std::vector<ConfigurationEntry>> ReadConfiguration(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(absl::StrCat(path, ": ", strerror(ENOENT)));
  }
  std::ifstream file(path);
  if (std::filesystem::is_directory(status) || !file.is_open()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", strerror(file.is_open() ? EISDIR : errno)));
  }
  std::vector<ConfigurationEntry> entries;
  ConfigurationEntry entry;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    entry.place = absl::StrCat(path, ":", ++number);
    const absl::StatusOr<bool> is_entry = ParseLine(line, &entry);
    if (!is_entry.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.place, ": ", is_entry.status().message()));
    }
    if (*is_entry) entries.push_back(entry);
  }
  return entries;
}

absl::StatusOr<std::map<std::string, std::string>> AddConfiguredOptions(
    CLI::App* app, const Configuration& configuration, std::vector<std::string>* arguments) {
  const CommandLine line = Read(app, *arguments);
  const absl::StatusOr<std::vector<ConfigurationEntry>> entries = ReadFor(configuration, line);
  if (!entries.ok()) return absl::InvalidArgumentError(entries.status().message());
  Settings settings(app, configuration, line);
  settings.TakeVariables();
  absl::Status status = settings.TakeEntries(*entries);
  if (!status.ok()) return status;
  return settings.AddTo(arguments);
}

std::string UsersConfigurationFile(absl::string_view name) {
  std::string folder = Variable("XDG_CONFIG_HOME");
  if (folder.empty() && !Variable("HOME").empty()) folder = Variable("HOME") + "/.config";
  return folder.empty() ? "" : absl::StrCat(folder, "/invoker/", name);
}

}  // namespace invoker::tools
