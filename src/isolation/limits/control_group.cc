#include "src/isolation/limits/control_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/own_control_group.h"
#include "src/isolation/limits/control_group_place.h"

namespace invoker {
namespace {

constexpr char kMemory[] = "memory";
constexpr char kProcesses[] = "pids";
// Processes and threads of one executor and what its functions start.
constexpr int kMostProcesses = 1024;
// How long the end of processes that have been killed is waited for, at the server's end.
constexpr int kEndMs = 2000;

absl::Status Failed(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat(what, " ", path, ": ", strerror(error));
  if (error == EBUSY) return absl::UnavailableError(text);
  if (error == EEXIST) return absl::AlreadyExistsError(text);
  return error == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
}

}  // namespace

absl::StatusOr<UniqueFd> GroupFiles::Open(const std::string& path, int flags) const {
  UniqueFd file(open(At(path).c_str(), flags | O_CLOEXEC));
  if (!file.valid()) return Failed("open", path);
  return file;
}

absl::StatusOr<std::string> GroupFiles::Read(const std::string& path) const {
  absl::StatusOr<UniqueFd> file = Open(path, O_RDONLY);
  if (!file.ok()) return file.status();
  std::string text;
  char piece[4096];
  ssize_t size;
  while ((size = read(file->get(), piece, sizeof(piece))) > 0 || (size < 0 && errno == EINTR)) {
    if (size > 0) text.append(piece, static_cast<size_t>(size));
  }
  if (size < 0) return Failed("read", path);
  return text;
}

absl::Status GroupFiles::Write(const std::string& path, absl::string_view text) const {
  absl::StatusOr<UniqueFd> file = Open(path, O_WRONLY | O_TRUNC);
  if (!file.ok()) return file.status();
  // At once or not at all, as the kernel takes it.
  if (write(file->get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Failed(absl::StrCat("write \"", text, "\" to"), path);
  }
  return absl::OkStatus();
}

bool GroupFiles::Exists(const std::string& path) const {
  return access(At(path).c_str(), F_OK) == 0;
}

std::vector<std::string> GroupFiles::DirectoriesIn(const std::string& directory) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(At(directory), error)) {
    std::error_code none;
    if (entry.is_directory(none)) names.push_back(entry.path().filename());
  }
  return names;
}

absl::Status GroupFiles::Make(const std::string& directory) const {
  return mkdir(At(directory).c_str(), 0755) == 0 ? absl::OkStatus() : Failed("mkdir", directory);
}

absl::Status GroupFiles::Remove(const std::string& directory) const {
  return rmdir(At(directory).c_str()) == 0 ? absl::OkStatus() : Failed("rmdir", directory);
}

ExecutorGroup::~ExecutorGroup() { groups_->End(directory_); }

absl::StatusOr<UniqueFd> ExecutorGroup::OpenProcesses() const {
  return groups_->files_->Open(directory_ + "/cgroup.procs", O_WRONLY);
}

absl::Status ExecutorGroup::LimitMemory(uint64_t more_bytes) {
  absl::StatusOr<std::string> text = groups_->files_->Read(directory_ + "/memory.current");
  if (!text.ok()) return text.status();
  uint64_t now = 0;
  if (!absl::SimpleAtoi(*text, &now)) {
    return absl::InternalError(absl::StrCat(directory_, "/memory.current says \"", *text, "\""));
  }
  return groups_->files_->Write(directory_ + "/memory.max", absl::StrCat(now + more_bytes));
}

absl::Duration ExecutorGroup::CpuTime() const {
  const absl::StatusOr<std::string> text = groups_->files_->Read(directory_ + "/cpu.stat");
  return text.ok() ? absl::Microseconds(static_cast<int64_t>(CountIn(*text, "usage_usec")))
                   : absl::ZeroDuration();
}

bool ExecutorGroup::KilledForMemory() const {
  const absl::StatusOr<std::string> text = groups_->files_->Read(directory_ + "/memory.events");
  return text.ok() && CountIn(*text, "oom_kill") > 0;
}

ControlGroups::ControlGroups(std::unique_ptr<GroupFiles> files, std::string parent, pid_t pid)
    : files_(std::move(files)),
      parent_(std::move(parent)),
      own_(absl::StrCat(parent_, parent_.back() == '/' ? "" : "/", "invoker-", pid)),
      pid_(pid) {}

absl::StatusOr<std::unique_ptr<ControlGroups>> ControlGroups::Start(
    std::unique_ptr<GroupFiles> files, pid_t pid) {
  absl::StatusOr<std::string> cgroup = files->Read("/proc/self/cgroup");
  if (!cgroup.ok()) return absl::FailedPreconditionError(cgroup.status().message());
  absl::StatusOr<std::string> mounts = files->Read("/proc/self/mountinfo");
  if (!mounts.ok()) return absl::FailedPreconditionError(mounts.status().message());
  absl::StatusOr<std::string> parent = FindOwnGroup(*cgroup, *mounts);
  if (!parent.ok()) return parent.status();
  std::unique_ptr<ControlGroups> groups(
      new ControlGroups(std::move(files), *std::move(parent), pid));
  absl::Status status = groups->Prepare();
  if (!status.ok()) return absl::FailedPreconditionError(status.message());
  return groups;
}

// A server that had this one's number may have left its groups, if it was killed together with its
// template. In containers numbers come again with every start.
absl::Status ControlGroups::MakeOwn() {
  absl::Status status = files_->Make(own_);
  if (!absl::IsAlreadyExists(status)) return status;
  // The kernel removes only what is empty.
  for (const std::string& name : files_->DirectoriesIn(own_)) {
    files_->Remove(absl::StrCat(own_, "/", name)).IgnoreError();
  }
  files_->Remove(own_).IgnoreError();
  return files_->Make(own_);
}

absl::Status ControlGroups::Prepare() {
  absl::Status made = MakeOwn();
  if (absl::IsAlreadyExists(made)) {
    return absl::FailedPreconditionError(
        absl::StrCat(made.message(), ", and processes are in it: of a server in another PID ",
                     "namespace, say, or left by one that was killed; end those, or start this ",
                     "server in a cgroup of its own"));
  }
  if (!made.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        made.message(), "; be root, or have a cgroup delegated: systemd-run --user --scope -p ",
        "Delegate=yes, say"));
  }
  made_ = true;
  if (absl::Status status = EnableLimits(); !status.ok()) {
    why_not_ = std::string(status.message());
    limits_memory_ = limits_processes_ = false;
  }
  // The proof that groups can be made, limits be set, and processes be moved there.
  absl::StatusOr<std::unique_ptr<ExecutorGroup>> first =
      Make(absl::StrCat(own_, "/", kExecutorGroup, 0));
  return first.ok() ? TryToJoin(**first) : first.status();
}

// A process of no other purpose does, as executors will.
absl::Status ControlGroups::TryToJoin(const ExecutorGroup& group) {
  absl::StatusOr<UniqueFd> processes = group.OpenProcesses();
  if (!processes.ok()) return processes.status();
  const int fd = processes->get();
  // With this process's memory, none of which is copied: a network card may be writing to it.
  const pid_t child = vfork();
  if (child == 0) _exit(write(fd, "0", 1) == 1 ? 0 : errno);
  if (child < 0) return Failed("fork for", group.directory_);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
  return Failed("move a process to", group.directory_);
}

// Those that are used, each with `sign`: what a subtree_control is written.
std::string ControlGroups::Controllers(absl::string_view sign) const {
  std::vector<std::string> words;
  if (limits_memory_) words.push_back(absl::StrCat(sign, kMemory));
  if (limits_processes_) words.push_back(absl::StrCat(sign, kProcesses));
  return absl::StrJoin(words, " ");
}

absl::Status ControlGroups::EnableLimits() {
  absl::StatusOr<std::string> offered = files_->Read(parent_ + "/cgroup.controllers");
  if (!offered.ok()) return offered.status();
  limits_memory_ = HasWord(*offered, kMemory);
  limits_processes_ = HasWord(*offered, kProcesses);
  if (!limits_memory_ || !limits_processes_) {
    why_not_ = absl::StrCat("the cgroup ", parent_, " has no controller ",
                            limits_memory_ ? kProcesses : kMemory,
                            " (it has not been delegated, or it is with cgroups, version 1)");
  }
  const std::string enable = Controllers("+");
  if (enable.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> enabled = files_->Read(parent_ + "/cgroup.subtree_control");
  if (!enabled.ok()) return enabled.status();
  if ((limits_memory_ && !HasWord(*enabled, kMemory)) ||
      (limits_processes_ && !HasWord(*enabled, kProcesses))) {
    absl::Status status = files_->Write(parent_ + "/cgroup.subtree_control", enable);
    if (absl::IsUnavailable(status)) {
      // Something runs in it.
      status = MoveIntoOwnGroup();
      if (status.ok()) status = files_->Write(parent_ + "/cgroup.subtree_control", enable);
    }
    if (!status.ok()) return status;
    for (const absl::string_view controller : {kMemory, kProcesses}) {
      if (HasWord(enable, absl::StrCat("+", controller)) && !HasWord(*enabled, controller)) {
        enabled_in_parent_.push_back(absl::StrCat("-", controller));
      }
    }
  }
  return files_->Write(own_ + "/cgroup.subtree_control", enable);
}

absl::Status ControlGroups::MoveIntoOwnGroup() {
  absl::StatusOr<std::string> processes = files_->Read(parent_ + "/cgroup.procs");
  if (!processes.ok()) return processes.status();
  for (const absl::string_view line : absl::StrSplit(*processes, '\n', absl::SkipEmpty())) {
    if (line == absl::StrCat(pid_)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("other processes than the server are in its cgroup ", parent_,
                     "; start it in one of its own, with systemd-run -p Delegate=yes, say"));
  }
  if (absl::Status status = files_->Make(own_ + "/server"); !status.ok()) return status;
  moved_ = true;
  return files_->Write(own_ + "/server/cgroup.procs", absl::StrCat(pid_));
}

void ControlGroups::MoveBack() {
  // Only a group whose own groups are not limited may have processes.
  const std::string disable = Controllers("-");
  if (!disable.empty()) {
    files_->Write(own_ + "/cgroup.subtree_control", disable).IgnoreError();
  }
  if (!enabled_in_parent_.empty()) {
    files_->Write(parent_ + "/cgroup.subtree_control", absl::StrJoin(enabled_in_parent_, " "))
        .IgnoreError();
  }
  if (!moved_) return;
  files_->Write(parent_ + "/cgroup.procs", absl::StrCat(pid_)).IgnoreError();
  files_->Remove(own_ + "/server").IgnoreError();
}

absl::StatusOr<std::unique_ptr<ExecutorGroup>> ControlGroups::Make(const std::string& directory) {
  if (absl::Status status = files_->Make(directory); !status.ok()) return status;
  std::unique_ptr<ExecutorGroup> group(new ExecutorGroup(this, directory));
  absl::Status status;
  // One that has lost a process to a limit is of no more use.
  if (limits_memory_) status = files_->Write(directory + "/memory.oom.group", "1");
  if (status.ok() && limits_memory_ && files_->Exists(directory + "/memory.swap.max")) {
    status = files_->Write(directory + "/memory.swap.max", "0");
  }
  if (status.ok() && limits_processes_) {
    status = files_->Write(directory + "/pids.max", absl::StrCat(kMostProcesses));
  }
  if (!status.ok()) return status;
  return group;
}

absl::StatusOr<std::unique_ptr<ExecutorGroup>> ControlGroups::Add(uint64_t id) {
  RemoveLeft();
  return Make(absl::StrCat(own_, "/", kExecutorGroup, id));
}

void ControlGroups::End(const std::string& directory) {
  // Linux before 5.14 has none; the template then finds what there is to end.
  files_->Write(directory + "/cgroup.kill", "1").IgnoreError();
  if (!absl::IsUnavailable(files_->Remove(directory))) return;
  absl::MutexLock lock(&mutex_);
  left_.push_back(directory);
}

void ControlGroups::RemoveLeft() {
  std::vector<std::string> left;
  {
    absl::MutexLock lock(&mutex_);
    left.swap(left_);
  }
  for (const std::string& directory : left) End(directory);
}

void ControlGroups::WaitUntilEmpty(const std::string& directory) const {
  const std::string path = directory + "/cgroup.events";
  absl::StatusOr<UniqueFd> events = files_->Open(path, O_RDONLY);
  if (!events.ok()) return;
  while (true) {
    char text[256] = {};
    if (pread(events->get(), text, sizeof(text) - 1, 0) < 0 || CountIn(text, "populated") == 0) {
      return;
    }
    // The kernel says so when that changes.
    pollfd change = {events->get(), POLLPRI, 0};
    if (poll(&change, 1, kEndMs) == 0) return;
  }
}

ControlGroups::~ControlGroups() {
  std::vector<std::string> left;
  {
    absl::MutexLock lock(&mutex_);
    left.swap(left_);
  }
  for (const std::string& directory : left) {
    files_->Write(directory + "/cgroup.kill", "1").IgnoreError();
    WaitUntilEmpty(directory);
    files_->Remove(directory).IgnoreError();
  }
  if (!made_) return;
  MoveBack();
  files_->Remove(own_).IgnoreError();
}

}  // namespace invoker
