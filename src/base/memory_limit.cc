#include "src/base/memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace invoker {
namespace {

using Words = std::vector<absl::string_view>;

// Version 1 writes a number of this size where there is no limit.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

bool ListsMemory(absl::string_view list) {
  const Words words = absl::StrSplit(list, ',');
  return std::find(words.begin(), words.end(), "memory") != words.end();
}

// The folder of `group`; empty if its groups are not mounted here.
std::string FolderOf(absl::string_view group, bool version_two, absl::string_view mountinfo) {
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    // ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS
    const Words sides = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const Words left = absl::StrSplit(sides.front(), ' ');
    const Words right = absl::StrSplit(sides.back(), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool has_memory =
        version_two ? right[0] == "cgroup2" : right[0] == "cgroup" && ListsMemory(right[2]);
    // A container may see a part of the groups only.
    if (has_memory && (left[3] == "/" || absl::ConsumePrefix(&group, left[3]))) {
      return absl::StrCat(left[4], group);
    }
  }
  return "";
}

// Ends above the outermost group, where there is no such file.
uint64_t LeastLimit(std::filesystem::path folder, const char* file_name) {
  uint64_t least = kNoLimit;
  std::string text;
  while (std::ifstream(folder / file_name) >> text) {
    uint64_t limit = 0;
    if (absl::SimpleAtoi(text, &limit)) least = std::min(least, limit);
    folder = folder.parent_path();
  }
  return least;
}

std::string Contents(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

uint64_t MemoryLimit(absl::string_view cgroup, absl::string_view mountinfo) {
  uint64_t least = kNoLimit;
  for (const absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    // NUMBER:CONTROLLERS:GROUP; version 2 has number 0 and no controllers.
    const Words parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool version_two = parts[0] == "0";
    if (!version_two && !ListsMemory(parts[1])) continue;
    // "/" stands for the place itself.
    std::string folder = FolderOf(absl::StripSuffix(parts[2], "/"), version_two, mountinfo);
    if (folder.empty()) continue;
    least =
        std::min(least, LeastLimit(folder, version_two ? "memory.max" : "memory.limit_in_bytes"));
  }
  return least == kNoLimit ? 0 : least;
}

uint64_t OwnMemoryLimit() {
  return MemoryLimit(Contents("/proc/self/cgroup"), Contents("/proc/self/mountinfo"));
}

}  // namespace invoker
