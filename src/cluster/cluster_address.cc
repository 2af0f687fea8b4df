#include "src/cluster/cluster_address.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace invoker::cluster {
namespace {

constexpr absl::string_view kEtcdScheme = "etcd://";
constexpr absl::string_view kFileScheme = "file://";
constexpr uint16_t kEtcdPort = 2379;
constexpr size_t kMostNameBytes = 64;

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kMostNameBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

absl::Status BadEtcdAddress(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" names no cluster: ", why,
                                                 "; write etcd://HOST:PORT,HOST:PORT/NAME, for "
                                                 "example etcd://10.0.0.2:2379/render"));
}

absl::StatusOr<bootstrap::HostPort> ParseEndpoint(absl::string_view text) {
  const bool has_port = !text.empty() && absl::ascii_isdigit(text.back()) &&
                        absl::StrContains(text.substr(text.rfind(']') + 1), ':');
  return bootstrap::ParseHostPort(has_port ? std::string(text)
                                           : absl::StrCat(text, ":", kEtcdPort));
}

absl::Status Add(absl::string_view server, absl::string_view where,
                 std::vector<std::string>* servers) {
  if (std::find(servers->begin(), servers->end(), server) != servers->end()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has \"", server, "\" twice"));
  }
  servers->emplace_back(server);
  return absl::OkStatus();
}

}  // namespace

bool IsEtcdAddress(absl::string_view text) { return absl::StartsWith(text, kEtcdScheme); }

absl::StatusOr<EtcdAddress> ParseEtcdAddress(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kEtcdScheme)) {
    return BadEtcdAddress(text, "it does not begin with etcd://");
  }
  const size_t slash = rest.find('/');
  if (slash == absl::string_view::npos)
    return BadEtcdAddress(text, "the cluster's name is missing");
  EtcdAddress address;
  address.name = std::string(rest.substr(slash + 1));
  if (!IsName(address.name)) {
    return BadEtcdAddress(text, absl::StrCat("a name has 1 to ", kMostNameBytes,
                                             " letters, digits, \"-\", \"_\" and \".\""));
  }
  for (absl::string_view endpoint : absl::StrSplit(rest.substr(0, slash), ',')) {
    absl::StatusOr<bootstrap::HostPort> parsed = ParseEndpoint(endpoint);
    if (!parsed.ok()) return BadEtcdAddress(text, parsed.status().message());
    address.endpoints.push_back(*std::move(parsed));
  }
  return address;
}

std::string FormatEtcdAddress(const EtcdAddress& address) {
  const auto format = [](std::string* out, const bootstrap::HostPort& endpoint) {
    out->append(bootstrap::FormatHostPort(endpoint));
  };
  return absl::StrCat(kEtcdScheme, absl::StrJoin(address.endpoints, ",", format), "/",
                      address.name);
}

bool IsFileAddress(absl::string_view text) { return absl::StartsWith(text, kFileScheme); }

absl::StatusOr<std::string> ParseFileAddress(absl::string_view text) {
  const absl::string_view path = absl::StripPrefix(text, kFileScheme);
  if (absl::StartsWith(path, "/")) return std::string(path);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" names no file: write file:// and a path that begins at the root, for example ",
      "file:///etc/invoker/workers"));
}

absl::StatusOr<std::vector<std::string>> ParseServerList(absl::string_view text) {
  std::vector<std::string> servers;
  for (absl::string_view server : absl::StrSplit(text, ',')) {
    server = absl::StripAsciiWhitespace(server);
    if (server.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", text, "\" is no list of servers; write HOST:PORT,HOST:PORT, without gaps"));
    }
    absl::Status status = Add(server, absl::StrCat("\"", text, "\""), &servers);
    if (!status.ok()) return status;
  }
  return servers;
}

absl::StatusOr<std::vector<std::string>> ParseServerFile(absl::string_view name,
                                                         absl::string_view text) {
  std::vector<std::string> servers;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view server = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (server.empty()) continue;
    if (absl::Status status = bootstrap::ParseHostPort(server).status(); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", status.message()));
    }
    absl::Status status = Add(server, absl::StrCat(name, ":", number), &servers);
    if (!status.ok()) return status;
  }
  return servers;
}

}  // namespace invoker::cluster
