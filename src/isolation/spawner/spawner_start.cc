// How a spawner starts: which fabrics executors can serve, whose processes they are, and what they
// are forked from.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/isolation/process/executor_main.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/process/process_setup.h"
#include "src/isolation/sandbox/sandbox.h"
#include "src/isolation/spawner/process_spawner.h"
#include "src/transport/provider/provider_profile.h"
#include "src/transport/self_test/installed_program.h"

namespace invoker {
namespace {

using bootstrap::ExecutorKind;
using isolation::v1::Environment;

constexpr absl::string_view kProgram = "invoker_executor";
constexpr absl::string_view kPythonModule = "invoker.executor";
// From the directory of the server's program, where it was built.
constexpr absl::string_view kPythonProgram = "../src/python/invoker/executor.py";

absl::StatusOr<std::string> ProgramBesideThisOne() {
  return transport::FindInstalledProgram(kProgram, "runs executors");
}

// Of a path that may be relative to where this process stands, which executors do not; links stay
// as they are, since an interpreter finds its modules by its name. Empty stays empty.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return path.empty() || error ? path : absolute.string();
}

// What the interpreter is to run: the package that was built with this program, if it is there, or
// else the one that the interpreter finds.
std::vector<std::string> PythonCommand(const std::string& interpreter) {
  const absl::StatusOr<std::string> beside = ProgramBesideThisOne();
  if (beside.ok()) {
    const std::string directory = beside->substr(0, beside->rfind('/') + 1);
    const std::string program = absl::StrCat(directory, kPythonProgram);
    if (access(program.c_str(), R_OK) == 0) return {interpreter, program};
  }
  return {interpreter, "-m", std::string(kPythonModule)};
}

class Spawner final : public ExecutorSpawner {
 public:
  explicit Spawner(std::shared_ptr<ProcessTable> table) : table_(std::move(table)) {}
  ~Spawner() override { table_->Stop(); }

  absl::StatusOr<std::unique_ptr<ExecutorProcess>> Spawn(ExecutorKind kind,
                                                         const ExecutorTerms& terms,
                                                         ExecutorProcess::Events events) override {
    return table_->Spawn(kind, terms, std::move(events));
  }
  std::vector<std::string> Notes() const override { return table_->notes(); }

 private:
  const std::shared_ptr<ProcessTable> table_;
};

}  // namespace

absl::Status ProcessTable::MakeEnvironment() {
  const WorkerOptions& worker = options_.worker;
  absl::StatusOr<ExecutorUser> user = FindExecutorUser(options_.user);
  if (!user.ok()) return user.status();
  user_ = *user;
  Environment& environment = *prepare_.mutable_environment();
  std::vector<std::string> dropped;
  for (const std::string& provider : worker.providers) {
    if (user->change && transport::FindRow(provider).same_user_only) {
      dropped.push_back(provider);
    } else {
      environment.add_providers(provider);
    }
  }
  const std::string whose = options_.user.empty() ? "nobody" : options_.user;
  if (user->change) {
    notes_.push_back(absl::StrCat("executors run as user", user->several() ? "s " : " ", whose,
                                  user->several() ? ", each as another one" : ""));
  }
  if (!dropped.empty()) {
    notes_.push_back(absl::StrCat("executors do not serve ", absl::StrJoin(dropped, ", "),
                                  ": it works between processes of "
                                  "one user only, and they run as ",
                                  whose, "; they can with the server's own user"));
  }
  if (environment.providers().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "executors cannot serve any of the fabrics ", absl::StrJoin(worker.providers, ", "),
        dropped.empty() ? ": none was named"
                        : absl::StrCat(" as user ", whose, ", who is not the server's; serve ",
                                       "another fabric, or run executors as the server's user")));
  }
  environment.set_given_address(worker.addresses.given);
  environment.set_preferred_ip(worker.addresses.preferred_ip);
  environment.set_notification(bootstrap::ToProto(worker.notification));
  environment.set_window_bytes(worker.window_bytes);
  environment.set_data_auth(bootstrap::ToProto(worker.data_auth));
  environment.set_hot_timeout_ns(ToNanoseconds(worker.executor.hot_timeout));
  if (options_.libraries.size() > ControlSocket::kMostFds) {
    return absl::InvalidArgumentError(absl::StrCat("executors load at most ",
                                                   ControlSocket::kMostFds, " libraries; ",
                                                   options_.libraries.size(), " were named"));
  }
  for (const std::string& path : options_.libraries) {
    UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
      return absl::NotFoundError(absl::StrCat("cannot open \"", path, "\": ", strerror(errno)));
    }
    // Executors stand in another directory.
    environment.add_libraries(Absolute(path));
    libraries_.push_back(std::move(file));
  }
  prepare_.set_user(options_.user);
  return absl::OkStatus();
}

absl::Status ProcessTable::StartKind(ExecutorKind kind, const std::vector<std::string>& command,
                                     uint32_t prestart) {
  Kind& of = KindOf(kind);
  if (options_.sandbox == Sandbox::kBubblewrap) {
    for (const std::string& path : command) {
      if (!absl::StartsWith(path, "/tmp/")) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("\"", path, "\" is beneath /tmp, which executors do not see with ",
                       "--sandbox=bwrap: they have a /tmp of their own; install it elsewhere, or ",
                       "use --sandbox=none"));
    }
    SandboxNeeds needs;
    for (const std::string& provider : prepare_.environment().providers()) {
      const bool here = transport::FindRow(provider).same_host_only;
      needs.shared_memory |= here;
      needs.network |= !here;
    }
    of.command = command;
    of.command.emplace_back(kExecutorArgument);
    of.command = SandboxCommand(needs, of.command);
  }
  of.template_command = command;
  of.template_command.emplace_back(kTemplateArgument);
  // Modules come from where the interpreter and PYTHONPATH say, and not from where the server was
  // started, which -m would put first. Before Python 3.11 nothing looks at this.
  if (kind == ExecutorKind::kPython) of.variables = {"PYTHONSAFEPATH=1"};
  of.prestart = prestart;
  return StartTemplate(kind);
}

absl::Status ProcessTable::StartTemplate(ExecutorKind kind) {
  Kind& of = KindOf(kind);
  of.started_at = MonotonicNow();
  absl::StatusOr<std::unique_ptr<TemplateProcess>> process =
      TemplateProcess::Start(of.template_command, of.variables, prepare_);
  if (!process.ok()) return process.status();
  if (!Watch((*process)->socket().fd(), static_cast<uint64_t>(kind))) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll_ctl: ", strerror(errno)));
  }
  absl::MutexLock lock(&mutex_);
  of.process = *std::move(process);
  return absl::OkStatus();
}

bool ProcessTable::Watch(int fd, uint64_t number) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = number;
  return epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// Before templates are started, which are then in the server's group too.
void ProcessTable::FindGroups() {
  absl::StatusOr<std::unique_ptr<ControlGroups>> groups =
      ControlGroups::Start(std::make_unique<GroupFiles>(), getpid());
  const absl::string_view by_process =
      "executors' memory is limited by address space (RLIMIT_AS), of each process by itself";
  if (!groups.ok()) {
    notes_.push_back(absl::StrCat(by_process, ": ", groups.status().message()));
    return;
  }
  groups_ = *std::move(groups);
  prepare_.set_group(groups_->directory());
  const std::string place = absl::StrCat("cgroups in ", groups_->directory());
  if (!groups_->limits_memory()) {
    notes_.push_back(absl::StrCat(by_process, ": ", groups_->why_not(),
                                  "; what they start is counted and ended by ", place));
    return;
  }
  notes_.push_back(absl::StrCat(
      "executors' memory is limited by ", place, ", of all processes of one together",
      groups_->limits_processes() ? ""
                                  : absl::StrCat("; their number is not: ", groups_->why_not())));
  // The kernel lets whoever owns a group change it.
  if (user_.change || options_.sandbox != Sandbox::kNone) return;
  notes_.push_back(
      "executors run as the server's own user, to whom these cgroups belong: a hostile function "
      "can lift its limits and leave its group; use --sandbox=bwrap, or run the server as root "
      "with another --executor-user");
}

absl::Status ProcessTable::Prepare() {
  if (absl::Status status = MakeEnvironment(); !status.ok()) return status;
  if (options_.sandbox == Sandbox::kBubblewrap) {
    if (absl::Status status = CheckSandbox(); !status.ok()) return status;
  }
  events_.Reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!Watch(wake_.get(), kWakeEvent)) {
    return absl::ResourceExhaustedError(absl::StrCat("epoll: ", strerror(errno)));
  }
  FindGroups();
  std::string program = Absolute(options_.executor_path);
  if (program.empty()) {
    absl::StatusOr<std::string> found = ProgramBesideThisOne();
    if (!found.ok()) return found.status();
    program = *std::move(found);
  }
  absl::Status status = StartKind(ExecutorKind::kNative, {program}, options_.prestart);
  if (status.ok() && !options_.python_path.empty()) {
    status = StartKind(ExecutorKind::kPython, PythonCommand(Absolute(options_.python_path)),
                       options_.prestart_python);
  }
  // Both at once, since each takes a while. No thread has read what they say so far.
  for (Kind& kind : kinds_) {
    absl::MutexLock lock(&mutex_);
    if (!status.ok() || kind.process == nullptr) continue;
    status = kind.process->WaitUntilPrepared(options_.start_limit);
    kind.prepared = status.ok();
  }
  if (!status.ok()) return status;
  status = transport::StartThread(&thread_, [this] { ThreadMain(); });
  if (!status.ok()) return status;

  // The proof that executors come up: one of each kind, which then is the pool's first.
  for (const ExecutorKind kind : {ExecutorKind::kNative, ExecutorKind::kPython}) {
    if (KindOf(kind).template_command.empty()) continue;
    const bool keep = KindOf(kind).prestart > 0;
    absl::StatusOr<RecordPtr> first = StartOne(kind, keep ? Use::kPool : Use::kLease);
    if (!first.ok()) return first.status();
    if (status = (*first)->WaitUntilReady(); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("no executor comes up: ", status.message()));
    }
    if (!keep) Kill(first->get(), KillReason::kNotNeeded);
    Refill(kind);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ExecutorSpawner>> ExecutorSpawner::Start(
    const SpawnerOptions& options) {
  absl::StatusOr<std::shared_ptr<ProcessTable>> table = ProcessTable::Start(options);
  if (!table.ok()) return table.status();
  return std::unique_ptr<ExecutorSpawner>(std::make_unique<Spawner>(*std::move(table)));
}

}  // namespace invoker
