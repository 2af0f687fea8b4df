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
  app->failure_message([](const CLI::App* program, const CLI::Error& error) {
    return absl::StrCat(program->get_name(), ": error: ", error.what(), "; see ",
                        program->get_name(), " --help\n");
  });
  std::vector<std::string> arguments(argv, argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    argument = WithDashes(argument);
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  try {
    app->parse(argc, pointers.data());
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return -1;
}

void Log(absl::string_view program, absl::string_view message) {
  std::string line = absl::StrCat(program, ": ", message, "\n");
  // What the other side has said may be in it, and is not to command the terminal.
  for (char& byte : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(byte)) && byte != '\n' && byte != '\t') {
      byte = '?';
    }
  }
  // One write for the line, so that lines of several threads do not mix.
  fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace invoker::tools
