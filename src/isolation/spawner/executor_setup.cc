#include "src/isolation/spawner/executor_setup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/isolation/process/control_socket.h"
#include "src/isolation/process/executor_main.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/sandbox/sandbox.h"
#include "src/transport/provider/provider_profile.h"
#include "src/transport/self_test/installed_program.h"

namespace invoker {
namespace {
using isolation::v1::Environment;

constexpr absl::string_view kProgram = "invoker_executor";
constexpr absl::string_view kPythonModule = "invoker.executor";
// From the directory of the server's program, where it was built.
constexpr absl::string_view kPythonProgram = "../src/python/invoker/executor.py";

absl::StatusOr<std::string> ProgramBesideThisOne() {
  return transport::FindInstalledProgram(kProgram, "runs executors");
}

// The absolute form of a path: executors have another working directory. Links stay as they are,
// since an interpreter finds its modules by its name. Empty stays empty.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return path.empty() || error ? path : absolute.string();
}

// The interpreter runs the package that was built with this program, if it is there, or else the
// package that it finds.
std::vector<std::string> PythonCommand(const std::string& interpreter) {
  const absl::StatusOr<std::string> beside = ProgramBesideThisOne();
  if (beside.ok()) {
    const std::string directory = beside->substr(0, beside->rfind('/') + 1);
    const std::string program = absl::StrCat(directory, kPythonProgram);
    if (access(program.c_str(), R_OK) == 0) return {interpreter, program};
  }
  return {interpreter, "-m", std::string(kPythonModule)};
}

absl::Status FindUserAndFabrics(const SpawnerOptions& options, ExecutorSetup* setup) {
  const WorkerOptions& worker = options.worker;
  absl::StatusOr<ExecutorUser> user = FindExecutorUser(options.user);
  if (!user.ok()) return user.status();
  setup->user = *user;
  Environment& environment = *setup->prepare.mutable_environment();
  std::vector<std::string> dropped;
  for (const std::string& provider : worker.providers) {
    if (user->change && transport::FindRow(provider).same_user_only) {
      dropped.push_back(provider);
    } else {
      environment.add_providers(provider);
    }
  }
  const std::string whose = options.user.empty() ? "nobody" : options.user;
  if (user->change) {
    setup->notes.push_back(absl::StrCat("executors run as user", user->several() ? "s " : " ",
                                        whose, user->several() ? ", each as another one" : ""));
  }
  if (!dropped.empty()) {
    setup->notes.push_back(absl::StrCat("executors do not serve ", absl::StrJoin(dropped, ", "),
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
  if (options.libraries.size() > ControlSocket::kMostFds) {
    return absl::InvalidArgumentError(absl::StrCat("executors load at most ",
                                                   ControlSocket::kMostFds, " libraries; ",
                                                   options.libraries.size(), " were named"));
  }
  for (const std::string& path : options.libraries) {
    UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
      return absl::NotFoundError(absl::StrCat("cannot open \"", path, "\": ", strerror(errno)));
    }
    environment.add_libraries(Absolute(path));
    setup->libraries.push_back(std::move(file));
  }
  setup->prepare.set_user(options.user);
  return absl::OkStatus();
}

// Before templates are started, which are then in the server's group too.
void FindGroups(const SpawnerOptions& options, ExecutorSetup* setup) {
  absl::StatusOr<std::unique_ptr<ControlGroups>> groups =
      ControlGroups::Start(std::make_unique<GroupFiles>(), getpid());
  const absl::string_view by_process =
      "executors' memory is limited by address space (RLIMIT_AS), of each process by itself";
  if (!groups.ok()) {
    setup->notes.push_back(absl::StrCat(by_process, ": ", groups.status().message()));
    return;
  }
  setup->groups = *std::move(groups);
  setup->prepare.set_group(setup->groups->directory());
  const std::string place = absl::StrCat("cgroups in ", setup->groups->directory());
  if (!setup->groups->limits_memory()) {
    setup->notes.push_back(absl::StrCat(by_process, ": ", setup->groups->why_not(),
                                        "; what they start is counted and ended by ", place));
    return;
  }
  setup->notes.push_back(
      absl::StrCat("executors' memory is limited by ", place, ", of all processes of one together",
                   setup->groups->limits_processes()
                       ? ""
                       : absl::StrCat("; their number is not: ", setup->groups->why_not())));
  // The kernel lets a group's owner change it.
  if (setup->user.change || options.sandbox != Sandbox::kNone) return;
  setup->notes.push_back(
      "executors run as the server's own user, to whom these cgroups belong: a hostile function "
      "can lift its limits and leave its group; use --sandbox=bwrap, or run the server as root "
      "with another --executor-user");
}

absl::Status SetCommands(const SpawnerOptions& options, ExecutorKind kind,
                         const std::vector<std::string>& command, ExecutorSetup* setup) {
  ExecutorSetup::Kind& of = setup->KindOf(kind);
  if (options.sandbox == Sandbox::kBubblewrap) {
    for (const std::string& path : command) {
      if (!absl::StartsWith(path, "/tmp/")) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("\"", path, "\" is beneath /tmp, which executors do not see with ",
                       "--sandbox=bwrap: they have a /tmp of their own; install it elsewhere, or ",
                       "use --sandbox=none"));
    }
    SandboxNeeds needs;
    for (const std::string& provider : setup->prepare.environment().providers()) {
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
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExecutorSetup> ExecutorSetup::Make(const SpawnerOptions& options) {
  ExecutorSetup setup;
  absl::Status status = FindUserAndFabrics(options, &setup);
  if (status.ok() && options.sandbox == Sandbox::kBubblewrap) status = CheckSandbox();
  if (!status.ok()) return status;
  FindGroups(options, &setup);
  std::string program = Absolute(options.executor_path);
  if (program.empty()) {
    absl::StatusOr<std::string> found = ProgramBesideThisOne();
    if (!found.ok()) return found.status();
    program = *std::move(found);
  }
  status = SetCommands(options, ExecutorKind::kNative, {program}, &setup);
  if (status.ok() && !options.python_path.empty()) {
    status = SetCommands(options, ExecutorKind::kPython,
                         PythonCommand(Absolute(options.python_path)), &setup);
  }
  if (!status.ok()) return status;
  setup.KindOf(ExecutorKind::kNative).prestart = options.prestart;
  setup.KindOf(ExecutorKind::kPython).prestart = options.prestart_python;
  return setup;
}

}  // namespace invoker
