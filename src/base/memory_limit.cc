#include "src/base/memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "src/base/own_control_group.h"

namespace invoker {
namespace {

// Version 1 writes a number of this size where there is no limit.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

// A group may have no such file: of version 2 the first one of all, and those without the
// controller.
uint64_t LeastLimit(std::filesystem::path folder, const char* file_name) {
  uint64_t least = kNoLimit;
  for (; folder != folder.parent_path(); folder = folder.parent_path()) {
    std::string text;
    uint64_t limit = 0;
    if (std::ifstream(folder / file_name) >> text && absl::SimpleAtoi(text, &limit)) {
      least = std::min(least, limit);
    }
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
  if (const auto two = FindOwnGroup(cgroup, mountinfo); two.ok()) {
    least = LeastLimit(*two, "memory.max");
  }
  if (const auto one = FindOwnGroup(cgroup, mountinfo, "memory"); one.ok()) {
    least = std::min(least, LeastLimit(*one, "memory.limit_in_bytes"));
  }
  return least == kNoLimit ? 0 : least;
}

uint64_t OwnMemoryLimit() {
  return MemoryLimit(Contents("/proc/self/cgroup"), Contents("/proc/self/mountinfo"));
}

}  // namespace invoker
