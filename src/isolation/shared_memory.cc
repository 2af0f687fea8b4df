#include "src/isolation/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/isolation/unique_fd.h"

namespace invoker {
namespace {

constexpr absl::string_view kPlace = "/dev/shm/";

std::set<std::string> MappedNames() {
  std::set<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find(kPlace.data(), 0, kPlace.size());
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + kPlace.size());
    if (!absl::EndsWith(name, " (deleted)") && !absl::StrContains(name, '/')) names.insert(name);
  }
  return names;
}

// Those that begin with the process's number.
std::vector<std::string> NamesOf(pid_t pid) {
  std::vector<std::string> names;
  DIR* directory = opendir(std::string(kPlace).c_str());
  if (directory == nullptr) return names;
  const std::string prefix = absl::StrCat(pid, ":");
  while (const dirent* entry = readdir(directory)) {
    if (absl::StartsWith(entry->d_name, prefix)) names.emplace_back(entry->d_name);
  }
  closedir(directory);
  return names;
}

void RemoveFile(int place, const std::string& name, uid_t owner) {
  struct stat info;
  if (fstatat(place, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
      info.st_uid == owner) {
    unlinkat(place, name.c_str(), 0);
  }
}

}  // namespace

void NoteSharedMemory(ExecutorPage* page) {
  size_t used = 0;
  for (const std::string& name : MappedNames()) {
    if (used + name.size() + 2 > sizeof(page->shared_memory)) return;
    memcpy(page->shared_memory + used, name.c_str(), name.size() + 1);
    used += name.size() + 1;
  }
}

void RemoveSharedMemory(const ExecutorPage& page, pid_t pid, uid_t owner) {
  const UniqueFd place(open(std::string(kPlace).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.valid()) return;
  // A copy, since others may still have the page, and ended for sure.
  const std::string names(page.shared_memory, sizeof(page.shared_memory));
  for (size_t at = 0; at < names.size() && names[at] != 0;) {
    const std::string name(names.c_str() + at);
    at += name.size() + 1;
    if (!absl::StrContains(name, '/')) RemoveFile(place.get(), name, owner);
  }
  // One that never came to life has made nothing.
  if (pid <= 0) return;
  for (const std::string& name : NamesOf(pid)) RemoveFile(place.get(), name, owner);
}

}  // namespace invoker
