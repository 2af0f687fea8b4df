#include "src/transport/base/shared_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/random.h"

namespace invoker::transport {
namespace {

constexpr char kPlace[] = "/dev/shm";
constexpr absl::string_view kFirst = "invoker";
constexpr absl::string_view kAfterScheme = "://";

// The process that made a file.
struct Maker {
  uint64_t space = 0;  // PID namespace
  pid_t pid = 0;
  uint64_t start = 0;

  bool operator<(const Maker& other) const {
    return std::tie(space, pid, start) < std::tie(other.space, other.pid, other.start);
  }
};

// Takes only the form that names are made with: no sign, no space, no zero before it.
template <typename Number>
bool Parse(absl::string_view text, Number* number) {
  return absl::SimpleAtoi(text, number) && *number > 0 && absl::StrCat(*number) == text;
}

std::optional<Maker> MakerOf(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  Maker maker;
  if (parts.size() != 5 || parts[0] != kFirst || !Parse(parts[1], &maker.space) ||
      !Parse(parts[2], &maker.pid) || !Parse(parts[3], &maker.start) || parts[4].empty() ||
      !std::all_of(parts[4].begin(), parts[4].end(),
                   [](char c) { return absl::ascii_isalnum(c) || c == '-'; })) {
    return std::nullopt;
  }
  return maker;
}

absl::string_view NameIn(absl::string_view address) {
  address = address.substr(0, address.find('\0'));
  const size_t scheme = address.find(kAfterScheme);
  if (scheme == absl::string_view::npos) return {};
  return address.substr(scheme + kAfterScheme.size());
}

// This process's PID namespace; 0 if /proc is not there, or shows the processes of another one.
uint64_t OwnSpace() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!absl::StartsWith(line, "NSpid:")) continue;
    // The process's number in each namespace from that of /proc down to its own.
    const std::vector<std::string> numbers =
        absl::StrSplit(line.substr(6), absl::ByAnyChar(" \t"), absl::SkipEmpty());
    struct stat space;
    const bool own = numbers.size() == 1 && stat("/proc/self/ns/pid", &space) == 0;
    return own ? space.st_ino : 0;
  }
  return 0;
}

// 0 if it is not known.
uint64_t StartOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // Behind the program's name, which may contain anything.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(line).substr(end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStart = 19;  // field 22; these begin with the third
  uint64_t start = 0;
  return fields.size() > kStart && absl::SimpleAtoi(fields[kStart], &start) ? start : 0;
}

// Whether a thread has given up its memory, and with it all files that were mapped, because it is
// about to end, or is a zombie. False if that is not known.
bool HasNoMemory(const std::string& thread) {
  const auto is_gone = [] { return errno == ENOENT || errno == ESRCH; };
  const int fd = open(absl::StrCat(thread, "/maps").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return is_gone();
  char byte;
  ssize_t size;
  while ((size = read(fd, &byte, 1)) < 0 && errno == EINTR) {
  }
  const bool none = size == 0 || (size < 0 && is_gone());
  close(fd);
  return none;
}

// `maker` is of this namespace.
bool IsDead(const Maker& maker) {
  if (kill(maker.pid, 0) != 0 && errno == ESRCH) return true;
  const uint64_t start = StartOf(maker.pid);
  if (start != 0 && start != maker.start) return true;
  // It has been killed and nobody has waited for it yet, perhaps.
  const std::string tasks = absl::StrCat("/proc/", maker.pid, "/task");
  DIR* const directory = opendir(tasks.c_str());
  if (directory == nullptr) return kill(maker.pid, 0) != 0 && errno == ESRCH;
  bool dead = true;
  while (const dirent* thread = readdir(directory)) {
    if (thread->d_name[0] == '.') continue;
    dead = dead && HasNoMemory(absl::StrCat(tasks, "/", thread->d_name));
  }
  closedir(directory);
  return dead;
}

std::string Prefix(uint64_t space, pid_t pid, uint64_t start) {
  return absl::StrCat(kFirst, ".", space, ".", pid, ".", start, ".");
}

// A fork has its own.
std::atomic<pid_t> cleaned_by{0};

}  // namespace

std::string SharedFilePrefix(pid_t pid) {
  const uint64_t space = OwnSpace();
  const uint64_t start = StartOf(pid);
  return space == 0 || start == 0 ? "" : Prefix(space, pid, start);
}

std::string NewSharedFileName(absl::string_view last) {
  const pid_t self = getpid();
  if (cleaned_by.exchange(self) != self) RemoveFilesOfTheDead(geteuid());
  const std::string prefix = SharedFilePrefix(self);
  if (prefix.empty()) return "";
  if (!last.empty()) return absl::StrCat(prefix, last);
  const absl::StatusOr<uint64_t> random = DrawRandom();
  return random.ok() ? absl::StrCat(prefix, absl::Hex(*random, absl::kZeroPad16)) : "";
}

bool NamesSharedFile(absl::string_view address) { return MakerOf(NameIn(address)).has_value(); }

std::string SharedFilePath(absl::string_view address) {
  return NamesSharedFile(address) ? absl::StrCat(kPlace, "/", NameIn(address)) : "";
}

void RemoveFileOf(absl::string_view address) {
  const auto maker = MakerOf(NameIn(address));
  if (maker.has_value() && maker->pid == getpid()) unlink(SharedFilePath(address).c_str());
}

void RemoveFilesBeside(absl::string_view address) {
  const auto maker = MakerOf(NameIn(address));
  if (!maker.has_value() || maker->pid != getpid()) return;
  const std::string path = SharedFilePath(address);
  unlink(absl::StrCat(path, kSleepWordSuffix).c_str());
  unlink(absl::StrCat(path, kWakeFifoSuffix).c_str());
}

void RemoveOwnFiles() {
  const std::string prefix = SharedFilePrefix(getpid());
  DIR* const directory = prefix.empty() ? nullptr : opendir(kPlace);
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    if (absl::StartsWith(entry->d_name, prefix)) unlinkat(dirfd(directory), entry->d_name, 0);
  }
  closedir(directory);
}

void RemoveFilesOfTheDead(uid_t owner) {
  const uint64_t space = OwnSpace();
  DIR* const directory = space == 0 ? nullptr : opendir(kPlace);
  if (directory == nullptr) return;
  std::map<Maker, bool> dead;
  while (const dirent* entry = readdir(directory)) {
    const std::optional<Maker> maker = MakerOf(entry->d_name);
    struct stat info;
    if (!maker.has_value() || maker->space != space ||
        fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !(S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode)) || info.st_uid != owner) {
      continue;
    }
    auto found = dead.find(*maker);
    if (found == dead.end()) found = dead.emplace(*maker, IsDead(*maker)).first;
    if (found->second) unlinkat(dirfd(directory), entry->d_name, 0);
  }
  closedir(directory);
}

}  // namespace invoker::transport
