#include "src/isolation/limits/control_group_place.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace invoker {
namespace {

constexpr absl::string_view kVersionTwo = "0::";
constexpr absl::string_view kFileSystem = "cgroup2";

// Undoes mountinfo's way to write what would end a word.
std::string Unescaped(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = -1;
    if (text[i] == '\\' && i + 3 < text.size()) {
      code = 0;
      for (size_t at = i + 1; at <= i + 3; ++at) {
        code = text[at] >= '0' && text[at] <= '7' && code >= 0 ? code * 8 + (text[at] - '0') : -1;
      }
    }
    plain.push_back(code >= 0 ? static_cast<char>(code) : text[i]);
    if (code >= 0) i += 3;
  }
  return plain;
}

std::vector<std::filesystem::path> GroupsIn(const std::string& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> groups;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::error_code none;
    if (entry.is_directory(none)) groups.push_back(entry.path());
  }
  return groups;
}

absl::Status None(absl::string_view why) { return absl::FailedPreconditionError(why); }

}  // namespace

absl::StatusOr<std::string> FindOwnGroup(absl::string_view cgroup, absl::string_view mountinfo) {
  std::string own;
  for (absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    if (absl::ConsumePrefix(&line, kVersionTwo)) own = std::string(line);
  }
  if (own.empty() || own[0] != '/') return None("this kernel or machine has no cgroups, version 2");
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    // ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 1 >= words.size() || words[dash + 1] != kFileSystem) continue;
    const std::string root = Unescaped(words[3]);
    std::string place = Unescaped(words[4]);
    absl::string_view beneath = own;
    // A part of them only is mounted here: the one that a container may see, say.
    if (root != "/" &&
        (!absl::ConsumePrefix(&beneath, root) || (!beneath.empty() && beneath[0] != '/'))) {
      continue;
    }
    if (beneath != "/") absl::StrAppend(&place, beneath);
    return place;
  }
  return None(
      absl::StrCat("no cgroups, version 2, are mounted that hold this process's (", own, ")"));
}

uint64_t CountIn(absl::string_view text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    uint64_t number = 0;
    if (parts.first == name && absl::SimpleAtoi(parts.second, &number)) return number;
  }
  return 0;
}

bool HasWord(absl::string_view text, absl::string_view word) {
  for (const absl::string_view each : absl::StrSplit(text, absl::ByAnyChar(" \n"))) {
    if (each == word) return true;
  }
  return false;
}

void EndGroups(const std::string& directory) {
  for (const std::filesystem::path& group : GroupsIn(directory)) {
    // The server's own may be there as well, with the caller of this.
    if (!absl::StartsWith(group.filename().string(), kExecutorGroup)) continue;
    std::ofstream(group / "cgroup.kill") << "1";
  }
}

void RemoveEmptyGroups(const std::string& directory) {
  // The kernel removes only what is empty.
  for (const std::filesystem::path& group : GroupsIn(directory)) rmdir(group.c_str());
  rmdir(directory.c_str());
}

}  // namespace invoker
