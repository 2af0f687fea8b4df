#include "tests/integration/server_process.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/transport/base/shared_files.h"

namespace invoker {
namespace {

constexpr char kSharedMemory[] = "/dev/shm/";

// "invoker", PID namespace, process, start, LAST.
std::vector<std::string> PartsOf(absl::string_view name) { return absl::StrSplit(name, '.'); }

uint64_t Number(const std::string& text) {
  uint64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

}  // namespace

std::string LoopbackAddressOfItsOwn() {
  std::random_device random;
  const auto byte = [&random] { return random() % 250 + 1; };
  return absl::StrCat("127.", byte(), ".", byte(), ".", byte());
}

std::vector<std::string> ServerCommand(const ServerProcessOptions& options) {
  std::vector<std::string> command = options.prefix;
  command.insert(command.end(), {"tools/invoker_server", "--listen=" + options.listen});
  if (!options.provider.empty()) command.push_back("--provider=" + options.provider);
  if (!options.notify.empty()) command.push_back("--notify=" + options.notify);
  if (!options.window.empty()) command.push_back("--window=" + options.window);
  if (!options.hot_timeout.empty()) command.push_back("--hot-timeout=" + options.hot_timeout);
  if (!options.functions.empty()) {
    command.push_back("--functions=" + absl::StrJoin(options.functions, ","));
  }
  command.push_back(absl::StrCat("--executors=", options.executors));
  command.insert(command.end(), options.more.begin(), options.more.end());
  return command;
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const ServerProcessOptions& options) {
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
  const std::vector<std::string> own = PartsOf(transport::SharedFilePrefix(getpid()));
  while (const dirent* entry = readdir(directory)) {
    const std::vector<std::string> parts = PartsOf(entry->d_name);
    if (parts.size() == own.size() && parts[0] == own[0] && parts[1] == own[1] &&
        parts[2] == absl::StrCat(pid) && Number(parts[3]) >= Number(own[3])) {
      names.emplace_back(entry->d_name);
    }
  }
  closedir(directory);
  return names;
}

}  // namespace invoker
