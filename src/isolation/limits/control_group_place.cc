#include "src/isolation/limits/control_group_place.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace invoker {
namespace {

std::vector<std::filesystem::path> GroupsIn(const std::string& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> groups;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::error_code none;
    if (entry.is_directory(none)) groups.push_back(entry.path());
  }
  return groups;
}

}  // namespace

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
