#include "src/isolation/process/process_tree.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace invoker {
namespace {

// 0: there is no such process.
pid_t ParentOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  // The name in parentheses may hold anything, parentheses too.
  const size_t end = line.rfind(')');
  int parent = 0;
  char state = 0;
  if (end == std::string::npos || sscanf(line.c_str() + end + 1, " %c %d", &state, &parent) != 2) {
    return 0;
  }
  return parent;
}

}  // namespace

std::vector<pid_t> OwnChildren() {
  std::vector<pid_t> children;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return children;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(directory)) {
    const pid_t pid = atoi(entry->d_name);
    if (pid > 0 && ParentOf(pid) == self) children.push_back(pid);
  }
  closedir(directory);
  return children;
}

std::vector<std::string> OtherThreads() {
  std::vector<std::string> names;
  DIR* directory = opendir("/proc/self/task");
  if (directory == nullptr) return names;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(directory)) {
    const pid_t thread = atoi(entry->d_name);
    if (thread <= 0 || thread == self) continue;
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/comm");
    std::string name;
    std::getline(file, name);
    names.push_back(name);
  }
  closedir(directory);
  return names;
}

}  // namespace invoker
