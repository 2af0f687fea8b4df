#include "tools/options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/log/log.h"

namespace invoker::tools {
namespace {

bool ParseDuration(const std::string& text, absl::Duration* value) {
  double seconds;
  absl::Duration duration;
  if (absl::SimpleAtod(text, &seconds)) {
    if (std::isnan(seconds)) return false;
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &duration)) {
    return false;
  }
  if (duration < absl::ZeroDuration()) return false;
  *value = duration;
  return true;
}

bool ParseBytes(std::string text, uint64_t* value) {
  unsigned shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
      case 'k':
        shift = 10;
        break;
      case 'M':
      case 'm':
        shift = 20;
        break;
      case 'G':
      case 'g':
        shift = 30;
        break;
      default:
        break;
    }
    if (shift != 0) text.pop_back();
  }
  uint64_t number;
  if (!absl::SimpleAtoi(text, &number) || number > UINT64_MAX >> shift) return false;
  *value = number << shift;
  return true;
}

CLI::Option* AddBytesOption(CLI::App* app, const std::string& name,
                            const std::function<void(uint64_t)>& set, const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, set](const std::string& text) {
            uint64_t bytes = 0;
            if (!ParseBytes(text, &bytes)) {
              throw CLI::ValidationError(
                  name, absl::StrCat("\"", text, "\" is no size; write 65536, 64K or 2M"));
            }
            set(bytes);
          },
          help)
      ->type_name("BYTES");
}

// Options are written with dashes. Underscores in an option's name are read as dashes; its value
// stays as it is.
std::string WithDashes(absl::string_view argument) {
  std::string normal(argument);
  if (!absl::StartsWith(argument, "--")) return normal;
  const size_t end = std::min(normal.find('='), normal.size());
  std::replace(normal.begin() + 2, normal.begin() + end, '_', '-');
  return normal;
}

std::vector<std::string> Normal(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    argument = WithDashes(argument);
  }
  return arguments;
}

// `origins` says where options are from that were not on the command line.
int ParseArguments(CLI::App* app, const std::vector<std::string>& arguments,
                   const std::map<std::string, std::string>& origins) {
  app->failure_message([&origins](const CLI::App* program, const CLI::Error& error) {
    const std::string message = error.what();
    std::string where;
    for (const auto& [option, origin] : origins) {
      const size_t at = message.find(option);
      if (at == std::string::npos) continue;
      const char behind = message.c_str()[at + option.size()];
      if (absl::ascii_isalnum(behind) || behind == '-') continue;
      where = absl::StrCat(" (from ", origin, ")");
    }
    return absl::StrCat(program->get_name(), ": error: ", message, where, "; see ",
                        program->get_name(), " --help\n");
  });
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  try {
    app->parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return -1;
}

}  // namespace

CLI::Option* AddDuration(CLI::App* app, const std::string& name, absl::Duration* value,
                         const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, value](const std::string& text) {
            if (!ParseDuration(text, value)) {
              throw CLI::ValidationError(
                  name, absl::StrCat("\"", text, "\" is no duration; write 1.5s, 200ms or inf"));
            }
          },
          help)
      ->type_name("DURATION")
      ->default_str(absl::FormatDuration(*value));
}

CLI::Option* AddNotification(CLI::App* app, const std::string& name, Notification* value,
                             const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, value](const std::string& text) {
            if (!ParseNotification(text, value)) {
              throw CLI::ValidationError(
                  name,
                  absl::StrCat("\"", text, "\" is not one of auto, write_imm, send_after_write"));
            }
          },
          help)
      ->type_name("auto|write_imm|send_after_write")
      ->default_str(std::string(NotificationName(*value)));
}

CLI::Option* AddDataAuth(CLI::App* app, const std::string& name, DataAuth* value,
                         const std::string& help) {
  return app
      ->add_option_function<std::string>(
          name,
          [name, value](const std::string& text) {
            const std::optional<DataAuth> auth = ParseDataAuth(text);
            if (!auth.has_value()) {
              throw CLI::ValidationError(
                  name, absl::StrCat("\"", text, "\" is not one of off, header, full"));
            }
            *value = *auth;
          },
          help)
      ->type_name("off|header|full")
      ->default_str(std::string(DataAuthName(*value)));
}

CLI::Option* AddLabels(CLI::App* app, std::map<std::string, std::string>* labels,
                       const std::string& help) {
  return app
      ->add_option_function<std::vector<std::string>>(
          "--label",
          [labels](const std::vector<std::string>& given) {
            for (const std::string& label : given) {
              const size_t equals = label.find('=');
              if (equals == std::string::npos || equals == 0) {
                throw CLI::ValidationError(
                    "--label", absl::StrCat("\"", label, "\" is not KEY=VALUE; write for example ",
                                            "--label=zone=a"));
              }
              (*labels)[label.substr(0, equals)] = label.substr(equals + 1);
            }
          },
          help)
      ->type_name("LABEL");
}

void AddLogOptions(CLI::App* app, LogSettings* settings) {
  app->add_option_function<std::string>(
         "--log-format",
         [settings](const std::string& text) {
           settings->format = text == "json" ? LogFormat::kJson : LogFormat::kText;
         },
         "lines on standard error: text, or json for programs")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("text|json")
      ->default_str("text");
  app->add_option_function<std::string>(
         "--log-level",
         [settings](const std::string& text) {
           for (const LogLevel level :
                {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
             if (text == LogLevelName(level)) settings->level = level;
           }
         },
         "leaves out messages below it")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->type_name("debug|info|warning|error")
      ->default_str("info");
}

void SetLog(const LogSettings& settings, const std::string& program) {
  SetLogFormat(settings.format, program);
  SetLogLevel(settings.level);
}

CLI::Option* AddBytes(CLI::App* app, const std::string& name, uint64_t* value,
                      const std::string& help) {
  return AddBytesOption(
             app, name, [value](uint64_t bytes) { *value = bytes; }, help)
      ->default_str(absl::StrCat(*value));
}

CLI::Option* AddBytes(CLI::App* app, const std::string& name, std::optional<uint64_t>* value,
                      const std::string& help) {
  return AddBytesOption(
      app, name, [value](uint64_t bytes) { *value = bytes; }, help);
}

int Parse(CLI::App* app, int argc, char** argv) {
  SetLogFormat(LogFormat::kPlain, app->get_name());
  return ParseArguments(app, Normal(argc, argv), {});
}

int Parse(CLI::App* app, const Configuration& configuration, int argc, char** argv) {
  SetLogFormat(LogFormat::kPlain, app->get_name());
  std::string unused;
  app->add_option("--config", unused,
                  absl::StrCat("a file with options; \"none\": no file. By default ",
                               configuration.variable_prefix, "CONFIG, or else ",
                               configuration.default_file_in_words))
      ->type_name("FILE")
      ->configurable(false);
  std::vector<std::string> arguments = Normal(argc, argv);
  const absl::StatusOr<std::map<std::string, std::string>> origins =
      AddConfiguredOptions(app, configuration, &arguments);
  if (origins.ok()) return ParseArguments(app, arguments, *origins);
  LogError(origins.status().message());
  return kExitUsage;
}

}  // namespace invoker::tools
