#include "src/isolation/process/executor_host.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/isolation/process/end_handlers.h"
#include "src/isolation/process/nanoseconds.h"

namespace invoker {
namespace {

using isolation::v1::Environment;
using isolation::v1::FromExecutor;
using isolation::v1::ToExecutor;

// The process has one lease: what its Worker calls it is its own affair.
constexpr uint64_t kLease = 1;

void SetStatus(const absl::Status& status, FromExecutor* answer) {
  answer->set_status(static_cast<uint32_t>(status.code()));
  answer->set_text(std::string(status.message()));
}

std::shared_ptr<const bootstrap::FunctionFilter> FilterOf(
    const isolation::v1::FunctionFilter& message) {
  auto filter = std::make_shared<bootstrap::FunctionFilter>(message.later_ones());
  for (const char allowed : message.allowed()) filter->Add(allowed != 0);
  return filter;
}

absl::StatusOr<WorkerOptions> ToOptions(const Environment& environment) {
  WorkerOptions options;
  options.providers.assign(environment.providers().begin(), environment.providers().end());
  options.addresses.given = environment.given_address();
  options.addresses.preferred_ip = environment.preferred_ip();
  options.executors = 1;
  absl::StatusOr<Notification> notification =
      bootstrap::FromProto(environment.notification(), /*allow_auto=*/true);
  if (!notification.ok()) return notification.status();
  options.notification = *notification;
  options.window_bytes = environment.window_bytes();
  absl::StatusOr<DataAuth> data_auth = bootstrap::FromProto(environment.data_auth());
  if (!data_auth.ok()) return data_auth.status();
  options.data_auth = *data_auth;
  options.executor.hot_timeout = FromNanoseconds(environment.hot_timeout_ns());
  return options;
}

// Makes what is in a descriptor loadable by name, even where this process is another user's than
// who opened it, and so may not look at its own descriptors by name: only a process that may be
// traced may. Undone when this goes away.
class NamedDescriptor {
 public:
  explicit NamedDescriptor(int fd)
      : path_(absl::StrCat("/proc/self/fd/", fd)), dumpable_(prctl(PR_GET_DUMPABLE)) {
    if (dumpable_ != 1) prctl(PR_SET_DUMPABLE, 1);
  }
  ~NamedDescriptor() {
    if (dumpable_ != 1) prctl(PR_SET_DUMPABLE, 0);
  }
  NamedDescriptor(const NamedDescriptor&) = delete;
  NamedDescriptor& operator=(const NamedDescriptor&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const int dumpable_;
};

// Whether `path` names, for this process, the very file that `fd` is.
bool IsSameFile(const std::string& path, int fd) {
  struct stat named;
  struct stat open;
  return access(path.c_str(), R_OK) == 0 && stat(path.c_str(), &named) == 0 &&
         fstat(fd, &open) == 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

absl::Status Renamed(const absl::Status& status, const std::string& from, const std::string& to) {
  return absl::Status(status.code(), absl::StrReplaceAll(status.message(), {{from, to}}));
}

}  // namespace

absl::StatusOr<std::vector<FunctionEntry>> ExecutorHost::LoadLibrary(const std::string& path,
                                                                     const std::string& name,
                                                                     UniqueFd fd) {
  FunctionLibraryOptions options;
  options.name = name;
  options.on_overrun = &EndForOverrun;
  absl::StatusOr<std::unique_ptr<FunctionLibrary>> library =
      absl::InternalError("no library has been loaded");
  if (IsSameFile(path, fd.get())) {
    library = FunctionLibrary::Load(path, options);
    if (!library.ok()) library = Renamed(library.status(), path, name);
  } else {
    const NamedDescriptor named(fd.get());
    library = FunctionLibrary::Load(named.path(), options);
    if (!library.ok()) library = Renamed(library.status(), named.path(), name);
    library_fds_.push_back(std::move(fd));
  }
  if (!library.ok()) return library.status();
  std::vector<FunctionEntry> functions = (*library)->functions();
  libraries_.push_back(*std::move(library));
  return functions;
}

absl::StatusOr<FromExecutor> ExecutorHost::Start(const Environment& environment,
                                                 std::vector<UniqueFd> fds) {
  if (fds.size() != static_cast<size_t>(environment.libraries_size())) {
    return absl::InvalidArgumentError(absl::StrCat(environment.libraries_size(), " libraries and ",
                                                   fds.size(), " descriptors for them"));
  }
  FunctionRegistry functions;
  for (int i = 0; i < environment.libraries_size(); ++i) {
    absl::StatusOr<std::vector<FunctionEntry>> loaded =
        LoadLibrary(environment.libraries(i), environment.libraries(i), std::move(fds[i]));
    if (!loaded.ok()) return loaded.status();
    if (absl::Status status = functions.AddAll(*std::move(loaded)); !status.ok()) return status;
  }
  absl::StatusOr<WorkerOptions> options = ToOptions(environment);
  if (!options.ok()) return options.status();
  options->executor.watch = &page_->watch;
  options->executor.function_meters = &page_->function_meters;
  options->executor.stores_data = true;
  options->executor.on_thread_start = &UseSignalStack;
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(*options, std::move(functions));
  if (!worker.ok()) return worker.status();
  worker_ = *std::move(worker);
  InstallEndHandlers(page_);
  worker_->set_on_session_closed([this](uint64_t, uint64_t handle, absl::string_view reason) {
    FromExecutor event;
    event.mutable_session_closed()->set_handle(handle);
    event.mutable_session_closed()->set_reason(std::string(reason));
    Tell(event);
  });
  worker_->set_on_downgraded([this](absl::string_view provider, absl::string_view reason) {
    FromExecutor event;
    event.mutable_downgraded()->set_provider(std::string(provider));
    event.mutable_downgraded()->set_reason(std::string(reason));
    Tell(event);
  });
  FromExecutor answer;
  *answer.mutable_ready()->mutable_functions() = bootstrap::ToProto(worker_->Info().functions);
  return answer;
}

void ExecutorHost::Tell(const FromExecutor& event) {
  // If the server is gone, so is this process in a moment.
  socket_->Send(event.SerializeAsString(), {}, /*wait=*/true).IgnoreError();
}

absl::Status ExecutorHost::Configure(const ToExecutor::Configure& request) {
  // The endpoints are there, and what they have counts as what the process has at its start.
  absl::Status status = worker_->SetHotTimeout(FromNanoseconds(request.hot_timeout_ns()));
  if (!status.ok()) return status;
  if (request.bulk_bytes() != 0) worker_->SetBulkBytes(request.bulk_bytes());
  if (request.memory_bytes() == 0) return absl::OkStatus();
  const uint64_t limit = AddressSpaceBytes() + request.memory_bytes();
  const rlimit limits = {limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot limit memory to ", limit, " bytes: setrlimit: ", strerror(errno)));
  }
  page_->address_space_limit.store(limit);
  EndWhenOutOfMemory();
  return absl::OkStatus();
}

absl::Status ExecutorHost::Load(const ToExecutor::Load& request, UniqueFd fd,
                                FromExecutor* answer) {
  std::vector<FunctionEntry> entries;
  if (request.kind() == bootstrap::v1::CODE_KIND_LIBRARY) {
    // The cache's path says nothing to the client.
    absl::StatusOr<std::vector<FunctionEntry>> loaded = LoadLibrary(
        request.path(), request.name().empty() ? request.path() : request.name(), std::move(fd));
    if (!loaded.ok()) return loaded.status();
    entries = *std::move(loaded);
  } else {
    if (!hooks_->load_python) {
      return absl::FailedPreconditionError(
          "this executor runs no Python functions: lease executors of kind python");
    }
    const NamedDescriptor named(fd.get());
    absl::StatusOr<FunctionEntry> entry = hooks_->load_python(named.path(), request.name());
    if (!entry.ok()) return entry.status();
    entries.push_back(*std::move(entry));
  }
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> all =
      worker_->AddFunctions(std::move(entries));
  if (!all.ok()) return all.status();
  *answer->mutable_functions()->mutable_functions() = bootstrap::ToProto(*all);
  return absl::OkStatus();
}

absl::Status ExecutorHost::Do(const ToExecutor& request, std::vector<UniqueFd> fds,
                              FromExecutor* answer) {
  switch (request.message_case()) {
    case ToExecutor::kConfigure:
      return Configure(request.configure());
    case ToExecutor::kLoad:
      if (fds.size() != 1) return absl::InvalidArgumentError("no file came along");
      return Load(request.load(), std::move(fds[0]), answer);
    case ToExecutor::kOpenSession: {
      absl::StatusOr<bootstrap::OpenSessionRequest> plain =
          bootstrap::FromProto(request.open_session());
      if (!plain.ok()) return plain.status();
      if (request.has_function_filter()) plain->filter = FilterOf(request.function_filter());
      plain->tenant = request.tenant();
      absl::StatusOr<bootstrap::OpenSessionReply> reply = worker_->OpenSession(kLease, *plain);
      if (!reply.ok()) return reply.status();
      *answer->mutable_open_session() = bootstrap::ToProto(*reply);
      return absl::OkStatus();
    }
    case ToExecutor::kSwitchNotification: {
      absl::StatusOr<Notification> notification =
          bootstrap::FromProto(request.switch_notification().notification(), /*allow_auto=*/false);
      if (!notification.ok()) return notification.status();
      return worker_->SwitchNotification(kLease, request.switch_notification().handle(),
                                         *notification, request.switch_notification().reason());
    }
    case ToExecutor::kCloseSession:
      return worker_->CloseSession(kLease, request.close_session().handle());
    case ToExecutor::kRegisterWindow: {
      const bootstrap::v1::RegisterWindowRequest& window = request.register_window();
      absl::StatusOr<uint16_t> number = worker_->RegisterWindow(
          kLease, window.handle(),
          {window.window().base(), window.window().length(), window.window().key()},
          window.readable(), window.writable());
      if (!number.ok()) return number.status();
      answer->set_window(*number);
      return absl::OkStatus();
    }
    case ToExecutor::kFindRequest: {
      absl::StatusOr<bootstrap::RequestState> state = worker_->FindRequest(
          kLease, request.find_request().handle(), request.find_request().sequence());
      if (!state.ok()) return state.status();
      answer->set_request_state(bootstrap::ToProto(*state));
      return absl::OkStatus();
    }
    case ToExecutor::kForgetWindow:
      return worker_->ForgetWindow(kLease, request.forget_window().handle(),
                                   static_cast<uint16_t>(request.forget_window().number()));
    default:
      return absl::UnimplementedError("an executor knows no such request");
  }
}

FromExecutor ExecutorHost::Answer(const ToExecutor& request, std::vector<UniqueFd> fds) {
  FromExecutor answer;
  SetStatus(Do(request, std::move(fds), &answer), &answer);
  return answer;
}

FromExecutor ExecutorHost::AnswerPrompt(const ToExecutor& request) {
  absl::ReaderMutexLock lock(&prompt_mutex_);
  return Answer(request, {});
}

void ExecutorHost::Stop(absl::Duration limit) {
  worker_->set_on_session_closed(nullptr);
  worker_->Stop(limit);
  // To the end of the process.
  absl::MutexLock lock(&prompt_mutex_);
  // The endpoints close, and take what they have in /dev/shm with them.
  worker_.reset();
  EndQuietly();
}

}  // namespace invoker
