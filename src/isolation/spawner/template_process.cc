#include "src/isolation/spawner/template_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/start_program.h"
#include "src/base/start_thread.h"
#include "src/isolation/process/executor_main.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/process/process_setup.h"
#include "src/isolation/sandbox/executor_environment.h"

namespace invoker {
namespace {

// How long it has to end what it has forked: more than it takes (template.cc, kEndLimit), also on a
// machine that has much else to do.
constexpr absl::Duration kEndLimit = absl::Seconds(10);

// The form that exec(2) wants. They stay those of `texts`.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Whether something is to be read before `deadline`, or the other end is closed.
bool Readable(int fd, absl::Time deadline) {
  while (true) {
    const absl::Duration left = std::max(deadline - MonotonicNow(), absl::ZeroDuration());
    // Rounded up, and no longer than a poll takes.
    const int64_t ms = absl::ToInt64Milliseconds(std::min(left, absl::Hours(1))) + 1;
    pollfd event = {fd, POLLIN, 0};
    if (poll(&event, 1, static_cast<int>(ms)) > 0) return true;
    if (MonotonicNow() >= deadline) return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TemplateProcess>> TemplateProcess::Start(
    const std::vector<std::string>& command, const std::vector<std::string>& variables,
    const isolation::v1::ToTemplate::Prepare& prepare) {
  absl::StatusOr<std::pair<UniqueFd, UniqueFd>> sockets = ControlSocket::Pair();
  if (!sockets.ok()) return sockets.status();
  std::vector<std::string> environment = ExecutorEnvironment(environ);
  environment.insert(environment.end(), variables.begin(), variables.end());
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> entries = Pointers(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  // What functions print is no part of what the server prints, and goes where the server's messages
  // go: an operator who looks at a server sees both.
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  posix_spawn_file_actions_adddup2(&actions, sockets->second.get(), kControlFd);
  pid_t pid = 0;
  const int error = StartProgram(&actions, arguments.data(), entries.data(), &pid, EndSignals());
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat(
        "cannot start \"", command[0], "\", which executors are forked from: ", strerror(error),
        "; it is built and installed together with the server, in the same directory"));
  }
  std::unique_ptr<TemplateProcess> process(
      new TemplateProcess(command[0], pid, std::move(sockets->first)));
  isolation::v1::ToTemplate message;
  *message.mutable_prepare() = prepare;
  // If it has ended already, reading finds out.
  process->Send(message, {}).IgnoreError();
  return process;
}

TemplateProcess::~TemplateProcess() {
  // It may never come to reading; and it has forked nothing yet.
  if (!prepared_) kill(pid_, SIGKILL);
  // It reads the end of its socket, and ends everything. What is on its way there waits no longer.
  shutdown(socket_.fd(), SHUT_RDWR);
  std::thread sender;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    sender.swap(sender_);
  }
  if (sender.joinable()) sender.join();
  WaitForEnd();
}

void TemplateProcess::WaitForEnd() const {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  // Linux before 5.3 has none, and then there is no limit. Its executors end with it; what they
  // have started may not, and stopped it may be by one of them.
  if (process.valid() && !Readable(process.get(), MonotonicNow() + kEndLimit)) kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status TemplateProcess::Send(const isolation::v1::ToTemplate& message,
                                   absl::Span<const int> fds) {
  Unsent unsent = {message.SerializeAsString(), {}};
  absl::MutexLock lock(&mutex_);
  if (unsent_.empty() && unsent.bytes.size() <= ControlSocket::kPacketBytes) {
    absl::Status status = socket_.Send(unsent.bytes, fds, /*wait=*/false);
    if (!absl::IsResourceExhausted(status)) return status;
  }
  for (const int fd : fds) {
    unsent.fds.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (unsent.fds.back().valid()) continue;
    return absl::ResourceExhaustedError(absl::StrCat("cannot copy a descriptor: ", strerror(errno),
                                                     "; allow the server more (ulimit -n)"));
  }
  if (!sender_.joinable()) {
    const absl::Status started = transport::StartThread(&sender_, [this] { SendUnsent(); });
    if (!started.ok()) return started;
  }
  unsent_.push_back(std::move(unsent));
  return absl::OkStatus();
}

void TemplateProcess::SendUnsent() {
  while (true) {
    Unsent* first = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](TemplateProcess* self)
               ABSL_NO_THREAD_SAFETY_ANALYSIS { return self->ending_ || !self->unsent_.empty(); },
          this));
      if (ending_) return;
      first = &unsent_.front();
    }
    std::vector<int> fds;
    for (const UniqueFd& fd : first->fds) fds.push_back(fd.get());
    // The end of one that is gone comes by other ways.
    socket_.Send(first->bytes, fds, /*wait=*/true).IgnoreError();
    absl::MutexLock lock(&mutex_);
    // Not before: until then others wait behind it.
    unsent_.pop_front();
  }
}

// Its number is its own until it is waited for.
void TemplateProcess::Kill() { kill(pid_, SIGKILL); }

absl::Status TemplateProcess::WaitUntilPrepared(absl::Duration limit) {
  if (!Readable(socket_.fd(), MonotonicNow() + limit)) {
    return absl::DeadlineExceededError(
        absl::StrCat("\"", program_, "\", which executors are forked from, was not ready after ",
                     absl::FormatDuration(limit), ", and was killed; what it printed may say why"));
  }
  absl::StatusOr<ControlSocket::Message> message = socket_.Receive(/*wait=*/true);
  isolation::v1::FromTemplate answer;
  if (!message.ok() || !answer.ParseFromString(message->bytes) || !answer.has_prepared()) {
    return absl::UnavailableError(absl::StrCat(
        "\"", program_, "\", which executors are forked from, ended while it started; what it ",
        "printed says why"));
  }
  return OnPrepared(answer.prepared());
}

absl::Status TemplateProcess::OnPrepared(const isolation::v1::FromTemplate::Prepared& answer) {
  prepared_ = answer.status() == 0;
  return absl::Status(static_cast<absl::StatusCode>(answer.status()), answer.text());
}

}  // namespace invoker
