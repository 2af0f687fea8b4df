// Command-line options that CLI11 does not know, and messages: what the programs have in common.

#ifndef INVOKER_TOOLS_OPTIONS_H_
#define INVOKER_TOOLS_OPTIONS_H_

#include <map>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "invoker/data_auth.h"
#include "invoker/log.h"
#include "invoker/notification.h"
#include "src/log/log.h"
#include "tools/configuration.h"

namespace invoker::tools {

// Exit statuses of every program.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // what was asked for could not be done
inline constexpr int kExitUsage = 2;   // bad arguments

// "1.5s", "200ms", "10us", "inf"; a bare number is seconds.
CLI::Option* AddDuration(CLI::App* app, const std::string& name, absl::Duration* value,
                         const std::string& help);

// "auto", "write_imm", "send_after_write".
CLI::Option* AddNotification(CLI::App* app, const std::string& name, Notification* value,
                             const std::string& help);

// "off", "header", "full".
CLI::Option* AddDataAuth(CLI::App* app, const std::string& name, DataAuth* value,
                         const std::string& help);

// KEY=VALUE, any number of times, into `labels`.
CLI::Option* AddLabels(CLI::App* app, std::map<std::string, std::string>* labels,
                       const std::string& help);

// What the log of a program that runs for long looks like.
struct LogSettings {
  LogFormat format = LogFormat::kText;
  LogLevel level = LogLevel::kInfo;
};
// --log-format and --log-level.
void AddLogOptions(CLI::App* app, LogSettings* settings);
// Before other threads run.
void SetLog(const LogSettings& settings, const std::string& program);

// "2097152", "2M", "64K", "1G": bytes, with binary multiples.
CLI::Option* AddBytes(CLI::App* app, const std::string& name, uint64_t* value,
                      const std::string& help);
CLI::Option* AddBytes(CLI::App* app, const std::string& name, std::optional<uint64_t>* value,
                      const std::string& help);

// Parses. Option names are written with dashes; underscores in a name are read as dashes. Returns
// -1 to go on, or the status to exit with. Help and version go to standard output with kExitOk; an
// error goes to standard error, with a pointer to --help.
int Parse(CLI::App* app, int argc, char** argv);
// The same, with an option --config, for what the command line does not give.
int Parse(CLI::App* app, const Configuration& configuration, int argc, char** argv);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_OPTIONS_H_
