#include "tests/integration/server_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace invoker {
namespace {

constexpr char kSharedMemory[] = "/dev/shm/";

// What the names begin with that tests/contract_providers gives.
constexpr char kEmulatedPrefix[] = "contract-";

// libfabric's shared memory begins with a version and flags, 4 bytes together, and its owner's
// number.
pid_t OwnerOf(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  int32_t owner = 0;
  const bool known = pread(fd, &owner, sizeof(owner), 4) == sizeof(owner);
  close(fd);
  return known ? owner : 0;
}

}  // namespace

std::string LoopbackAddressOfItsOwn() {
  std::random_device random;
  const auto byte = [&random] { return random() % 250 + 1; };
  return absl::StrCat("127.", byte(), ".", byte(), ".", byte());
}

std::vector<std::string> ServerCommand(const ServerOptions& options) {
  std::vector<std::string> command = options.prefix;
  command.insert(command.end(), {"tools/invoker_server", "--listen=" + options.listen});
  if (!options.provider.empty()) command.push_back("--provider=" + options.provider);
  if (!options.notify.empty()) command.push_back("--notify=" + options.notify);
  if (!options.window.empty()) command.push_back("--window=" + options.window);
  if (!options.hot_timeout.empty()) command.push_back("--hot_timeout=" + options.hot_timeout);
  if (!options.functions.empty()) {
    command.push_back("--functions=" + absl::StrJoin(options.functions, ","));
  }
  command.push_back(absl::StrCat("--executors=", options.executors));
  command.insert(command.end(), options.more.begin(), options.more.end());
  return command;
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const ServerOptions& options) {
  ChildProcess::Options child_options;
  child_options.command = ServerCommand(options);
  child_options.environment = options.environment;
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(child_options);
  if (!child.ok()) return child.status();
  absl::StatusOr<std::string> line = (*child)->FirstLine();
  if (!line.ok()) return line.status();
  nlohmann::json ready = nlohmann::json::parse(*line, nullptr, false);
  if (ready.is_discarded() || !ready.contains("listen")) {
    return absl::InternalError(absl::StrCat("not a ready line: ", *line));
  }
  return std::unique_ptr<ServerProcess>(new ServerProcess(*std::move(child), std::move(ready)));
}

ServerProcess::ServerProcess(std::unique_ptr<ChildProcess> child, nlohmann::json ready)
    : child_(std::move(child)), ready_(std::move(ready)), address_(ready_["listen"]) {}

ServerProcess::~ServerProcess() { Kill(); }

uint16_t ServerProcess::port() const {
  return static_cast<uint16_t>(atoi(address_.substr(address_.rfind(':') + 1).c_str()));
}

int ServerProcess::Stop() {
  Terminate();
  return Wait();
}

void ServerProcess::Kill() {
  ends_cleanly_ = false;
  child_->Signal(SIGKILL);
  if (child_->Wait() == 0) return;
  for (const std::string& name : SharedMemoryOf(pid())) unlink((kSharedMemory + name).c_str());
}

std::vector<std::string> SharedMemoryOf(pid_t pid) {
  std::vector<std::string> names;
  DIR* directory = opendir(kSharedMemory);
  if (directory == nullptr) return names;
  const std::string prefix = absl::StrCat(pid, ":");
  while (const dirent* entry = readdir(directory)) {
    const absl::string_view name = entry->d_name;
    if (absl::StartsWith(name, prefix) || (absl::StartsWith(name, kEmulatedPrefix) &&
                                           OwnerOf(absl::StrCat(kSharedMemory, name)) == pid)) {
      names.emplace_back(name);
    }
  }
  closedir(directory);
  return names;
}

}  // namespace invoker
