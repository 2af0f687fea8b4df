#include "tests/isolation/isolated_server.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

std::vector<std::string> NamesIn(const char* place) {
  std::vector<std::string> names;
  DIR* directory = opendir(place);
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) names.emplace_back(entry->d_name);
  closedir(directory);
  return names;
}

}  // namespace

SpawnerOptions TestSpawnerOptions(std::vector<std::string> providers) {
  SpawnerOptions options;
  options.executor_path = "tools/invoker_executor";
  options.libraries = {"tests/isolation/functions/bad_functions.so"};
  options.worker.providers = std::move(providers);
  options.worker.addresses.preferred_ip = "127.0.0.1";
  options.worker.executor.hot_timeout = absl::Microseconds(100);
  // Nobody else's, so that every fabric can be served.
  if (const passwd* self = getpwuid(geteuid()); self != nullptr) options.user = self->pw_name;
  return options;
}

WatchedExecutor::WatchedExecutor(ExecutorSpawner* spawner, const ExecutorTerms& terms) {
  ExecutorProcess::Events events;
  events.on_ended = [this](const ExecutorEnd& end) {
    end_ = end;
    ended_.Notify();
  };
  auto process = spawner->Spawn(ExecutorKind::kNative, terms, std::move(events));
  EXPECT_TRUE(process.ok()) << process.status();
  if (process.ok()) process_ = *std::move(process);
}

ExecutorEnd WatchedExecutor::WaitForEnd() {
  EXPECT_TRUE(ended_.WaitForNotificationWithTimeout(absl::Seconds(30)));
  return ended_.HasBeenNotified() ? end_ : ExecutorEnd();
}

IsolatedServer::IsolatedServer(ExecutorProcess* executor, const SpawnerOptions& options)
    : executor_(executor) {
  // A worker of this process says what fabrics there are.
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      Worker::Start(options.worker, FunctionRegistry());
  EXPECT_TRUE(worker.ok()) << worker.status();
  if (worker.ok()) info_ = (*worker)->Info();
  auto functions = executor->Functions();
  EXPECT_TRUE(functions.ok()) << functions.status();
  if (functions.ok()) info_.functions = *functions;
  bootstrap::ServerOptions server_options;
  server_options.listen = "127.0.0.1:0";
  auto server = bootstrap::Server::Start(server_options, this);
  EXPECT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
}

IsolatedServer::~IsolatedServer() { server_->Stop(); }

absl::StatusOr<std::unique_ptr<Client>> IsolatedServer::Connect() {
  return Client::Connect(server_->listen_address());
}

absl::StatusOr<std::string> CallOn(Client* client, const std::string& function,
                                   const std::string& input, absl::Duration timeout) {
  absl::StatusOr<RemoteFunction> found = client->Function(function);
  if (!found.ok()) return found.status();
  CallOptions options;
  options.timeout = timeout;
  absl::StatusOr<Response> response = client->Invoke(*found, input, options);
  if (!response.ok()) return response.status();
  return std::string(response->text());
}

absl::StatusOr<std::string> IsolatedServer::Call(const std::string& function,
                                                 const std::string& input) {
  absl::StatusOr<std::unique_ptr<Client>> client = Connect();
  if (!client.ok()) return client.status();
  return CallOn(client->get(), function, input);
}

absl::StatusOr<bootstrap::OpenSessionReply> IsolatedServer::OpenSession(
    uint64_t lease, const bootstrap::OpenSessionRequest& request) {
  absl::StatusOr<bootstrap::OpenSessionReply> reply = executor_->OpenSession(request);
  absl::MutexLock lock(&mutex_);
  if (reply.ok()) {
    sessions_.emplace(lease, reply->handle);
    last_session_ = reply->handle;
  }
  return reply;
}

uint64_t IsolatedServer::last_session() {
  absl::MutexLock lock(&mutex_);
  return last_session_;
}

absl::Status IsolatedServer::SwitchNotification(uint64_t, uint64_t handle,
                                                Notification notification,
                                                absl::string_view reason) {
  return executor_->SwitchNotification(handle, notification, reason);
}

absl::Status IsolatedServer::CloseSession(uint64_t lease, uint64_t handle) {
  {
    absl::MutexLock lock(&mutex_);
    sessions_.erase({lease, handle});
  }
  return executor_->CloseSession(handle);
}

absl::StatusOr<uint16_t> IsolatedServer::RegisterWindow(uint64_t, uint64_t handle,
                                                        const bootstrap::WindowDescriptor& window,
                                                        bool readable, bool writable) {
  return executor_->RegisterWindow(handle, window, readable, writable);
}

absl::Status IsolatedServer::ForgetWindow(uint64_t, uint64_t handle, uint16_t number) {
  return executor_->ForgetWindow(handle, number);
}

ResourceUsage IsolatedServer::CloseLease(uint64_t lease) {
  std::vector<uint64_t> handles;
  {
    absl::MutexLock lock(&mutex_);
    for (auto entry = sessions_.begin(); entry != sessions_.end();) {
      if (entry->first == lease) {
        handles.push_back(entry->second);
        entry = sessions_.erase(entry);
      } else {
        ++entry;
      }
    }
  }
  for (const uint64_t handle : handles) executor_->CloseSession(handle).IgnoreError();
  return {};
}

bool WaitUntilGone(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return true;
  pollfd event = {fd, POLLIN, 0};
  const bool gone = poll(&event, 1, 20'000) == 1;
  close(fd);
  return gone;
}

pid_t ParentOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(')');
  int parent = 0;
  if (end == std::string::npos || sscanf(line.c_str() + end + 1, " %*c %d", &parent) != 1) return 0;
  return parent;
}

std::set<pid_t> Descendants() {
  std::map<pid_t, pid_t> parents;
  for (const std::string& name : NamesIn("/proc")) {
    const pid_t pid = atoi(name.c_str());
    if (const pid_t parent = pid > 0 ? ParentOf(pid) : 0; parent != 0) parents[pid] = parent;
  }
  std::set<pid_t> found;
  for (const auto& [pid, first] : parents) {
    pid_t parent = first;
    while (parent > 1 && parent != getpid()) {
      const auto next = parents.find(parent);
      parent = next == parents.end() ? 0 : next->second;
    }
    if (parent == getpid()) found.insert(pid);
  }
  return found;
}

void ExpectToOutliveEndSignals(ExecutorSpawner* spawner, const SpawnerOptions& options) {
  WatchedExecutor executor(spawner);
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options);
  EXPECT_EQ(*server.Call("bad.echo", "x"), "x");
  const std::set<pid_t> processes = Descendants();
  EXPECT_GE(processes.size(), 2u);
  for (const pid_t pid : processes) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) EXPECT_EQ(kill(pid, signal), 0);
  }
  EXPECT_EQ(*server.Call("bad.echo", "still here"), "still here");
  WatchedExecutor from_the_same_template(spawner);
  EXPECT_TRUE(from_the_same_template.ok());
  EXPECT_FALSE(executor.ended());
  executor.process().Stop(absl::Seconds(30));
  EXPECT_EQ(executor.WaitForEnd().cause, LeaseEndCause::kReleased);
}

std::set<std::string> SharedMemoryFiles() {
  const std::vector<std::string> names = NamesIn("/dev/shm");
  return {names.begin(), names.end()};
}

size_t OpenDescriptors() { return NamesIn("/proc/self/fd").size(); }

}  // namespace invoker
