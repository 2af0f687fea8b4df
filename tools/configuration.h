// Options that the command line does not give: from the environment, else from a file.
//
//   # /etc/invoker/server.conf: options by their long names
//   listen = 0.0.0.0:7000
//   functions = /srv/functions/libimages.so
//
// In a program with commands, [call] begins the options of the command "call"; those before the
// first section are of every command that has them.

#ifndef INVOKER_TOOLS_CONFIGURATION_H_
#define INVOKER_TOOLS_CONFIGURATION_H_

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker::tools {

// invoker_server's default file.
inline constexpr char kServersFile[] = "/etc/invoker/server.conf";

struct Configuration {
  // With "INVOKER_", the variable INVOKER_PEER_TIMEOUT is the option --peer-timeout.
  std::string variable_prefix;
  // Read if it exists, unless --config or the variable PREFIX + "CONFIG" names another one or none.
  std::string default_file;
  std::string default_file_in_words;  // for --help, which does not depend on who asks
  // Options whose variables the program reads by itself.
  std::vector<std::string> read_elsewhere = {};
};

// A line of a file.
struct ConfigurationEntry {
  std::string section;  // empty before the first
  std::string name;     // with dashes
  std::string value;    // without quotes
  std::string place;    // "FILE:LINE"
};

// NOT_FOUND if there is no such file, INVALID_ARGUMENT for a line that is no entry.
absl::StatusOr<std::vector<ConfigurationEntry>> ReadConfiguration(const std::string& path);

// Adds "--name=value" to `arguments` (the program first) for each option that is not in it. Returns
// where they come from: "--name" -> "FILE:LINE" or the variable. An option that needs another one,
// which is not given, is left out. INVALID_ARGUMENT for an entry of the file that no command has.
absl::StatusOr<std::map<std::string, std::string>> AddConfiguredOptions(
    CLI::App* app, const Configuration& configuration, std::vector<std::string>* arguments);

// $XDG_CONFIG_HOME/invoker/NAME, or ~/.config/invoker/NAME; empty without a home.
std::string UsersConfigurationFile(absl::string_view name);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_CONFIGURATION_H_
