#include "src/transport/self_test/self_test_process.h"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/start_program.h"
#include "src/base/unique_fd.h"
#include "src/transport/base/shared_files.h"
#include "src/transport/discovery/fabric_query.h"
#include "src/transport/reactor/reactor.h"
#include "src/transport/self_test/installed_program.h"
#include "src/transport/self_test/self_test_message.h"

extern char** environ;

namespace invoker::transport {
namespace {

constexpr absl::string_view kProgram = "invoker_self_test";

// Much more than a result has.
constexpr size_t kMostOutputBytes = 1 << 20;

// A helper ends by itself after the self-test's limit, and what opening and closing endpoints takes
// on a busy machine. One that has not ended after so many limits hangs.
constexpr int kPatience = 4;

// A process that is killed and has not ended then is stuck in a driver, and is left there.
constexpr int kKilledMs = 2000;

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

SelfTestResult Died(absl::Status status) {
  SelfTestResult result;
  result.status = std::move(status);
  result.died = true;
  return result;
}

// One helper. One thread.
class Helper {
 public:
  static absl::StatusOr<std::unique_ptr<Helper>> Start(const std::string& program,
                                                       const FabricRequest& request,
                                                       const SelfTestOptions& options);
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper() { Reap(); }

  // Readable when there is something to do; -1: it has ended.
  int awaited() const {
    if (ended_) return -1;
    return process_.valid() ? process_.get() : output_.get();
  }
  void OnReadable();

  // Ends it, if it has not ended.
  SelfTestResult Finish();

 private:
  Helper(std::string provider, absl::Duration limit, pid_t pid, UniqueFd output)
      : provider_(std::move(provider)),
        limit_(limit),
        pid_(pid),
        process_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
        output_(std::move(output)) {}

  void Read();
  void Kill();
  // Waits for its end. False if `status` is not known: somebody else has waited for it, or it does
  // not end.
  bool Reap(int* status = nullptr);
  absl::Status DescribeEnd(bool known, int status) const;

  const std::string provider_;
  const absl::Duration limit_;
  pid_t pid_;         // 0: it has been waited for
  UniqueFd process_;  // Linux before 5.3 has none; then the end of the output stands for its end
  UniqueFd output_;   // a result fits into the pipe; until it has been read
  std::string text_;
  bool ended_ = false;
};

absl::StatusOr<std::unique_ptr<Helper>> Helper::Start(const std::string& program,
                                                      const FabricRequest& request,
                                                      const SelfTestOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("pipe: ", strerror(errno)));
  }
  UniqueFd output(ends[0]);
  // Above the descriptors that the helper gets, whichever of them this process has closed.
  const UniqueFd input(fcntl(ends[1], F_DUPFD_CLOEXEC, kSelfTestFd + 1));
  close(ends[1]);
  UniqueFd messages(fcntl(2, F_DUPFD_CLOEXEC, kSelfTestFd + 1));
  if (!messages.valid()) {
    const UniqueFd nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
    messages = UniqueFd(fcntl(nowhere.get(), F_DUPFD_CLOEXEC, kSelfTestFd + 1));
  }
  if (!input.valid() || !messages.valid()) {
    return absl::ResourceExhaustedError(absl::StrCat("descriptors: ", strerror(errno)));
  }
  // A process that this one has forked meanwhile may have the other end, too.
  fcntl(output.get(), F_SETFL, O_NONBLOCK);
  v1::SelfTestRequest message = ToProto(request);
  message.set_limit_ns(absl::ToInt64Nanoseconds(options.limit));
  message.set_parent(getpid());
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string argument;
  printer.PrintToString(message, &argument);
  char* const arguments[] = {const_cast<char*>(program.c_str()), argument.data(), nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), kSelfTestFd);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  // A provider's output is a message, and no part of this process's output.
  posix_spawn_file_actions_adddup2(&actions, messages.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, messages.get(), 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, kSelfTestFd + 1);
  pid_t pid = 0;
  const int error = StartProgram(&actions, arguments, environ, &pid);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start \"", program, "\", which tries fabrics: ", strerror(error)));
  }
  const std::string provider =
      request.provider.empty() ? std::string(DefaultProvider()) : request.provider;
  return std::unique_ptr<Helper>(new Helper(provider, options.limit, pid, std::move(output)));
}

void Helper::OnReadable() {
  if (process_.valid()) {
    ended_ = true;
  } else {
    Read();
  }
}

void Helper::Read() {
  char part[4096];
  const ssize_t size = read(output_.get(), part, sizeof(part));
  if (size < 0 && errno == EINTR) return;
  if (size > 0) text_.append(part, static_cast<size_t>(size));
  if (size <= 0 || text_.size() > kMostOutputBytes) output_.Reset();
}

// The process keeps its number until it is waited for; its descriptor is its own for ever.
void Helper::Kill() {
  if (process_.valid()) {
    syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  } else {
    kill(pid_, SIGKILL);
  }
}

bool Helper::Reap(int* status) {
  if (pid_ == 0) return false;
  pollfd end = {process_.get(), POLLIN, 0};
  if (process_.valid() && poll(&end, 1, kKilledMs) == 0) {
    pid_ = 0;
    return false;
  }
  pid_t waited;
  while ((waited = waitpid(pid_, status, 0)) < 0 && errno == EINTR) {
  }
  RemoveFilesOfTheDead(geteuid());
  pid_ = 0;
  return waited > 0;
}

absl::Status Helper::DescribeEnd(bool known, int status) const {
  const std::string test = absl::StrCat("the self-test of provider ", provider_);
  if (known && WIFSIGNALED(status)) {
    return absl::AbortedError(absl::StrCat(test, " died of ", SignalName(WTERMSIG(status))));
  }
  if (known && WEXITSTATUS(status) != 0) {
    return absl::AbortedError(
        absl::StrCat(test, " ended its process with exit status ", WEXITSTATUS(status)));
  }
  return absl::AbortedError(absl::StrCat(test, " ended its process without a result"));
}

SelfTestResult Helper::Finish() {
  const bool in_time = awaited() < 0;
  // Without a descriptor it may live on, having closed its output.
  if (!ended_) Kill();
  int status = 0;
  const bool known = Reap(&status);
  while (output_.valid()) Read();
  if (!in_time) {
    return Died(absl::DeadlineExceededError(
        absl::StrCat("the self-test of provider ", provider_, " did not end within ",
                     absl::FormatDuration(kPatience * limit_), ", and was killed")));
  }
  v1::SelfTestResult message;
  if ((known && status != 0) || !message.ParseFromString(text_)) {
    return Died(DescribeEnd(known, status));
  }
  absl::StatusOr<SelfTestResult> result = FromProto(message);
  return result.ok() ? *std::move(result) : Died(DescribeEnd(known, status));
}

// Until all have ended, or for `limit`.
void Await(absl::Span<const std::unique_ptr<Helper>> helpers, absl::Duration limit) {
  const int64_t deadline_ns = MonotonicNs() + absl::ToInt64Nanoseconds(limit);
  while (true) {
    std::vector<pollfd> events;
    std::vector<Helper*> of;
    for (const std::unique_ptr<Helper>& helper : helpers) {
      if (helper == nullptr || helper->awaited() < 0) continue;
      events.push_back({helper->awaited(), POLLIN, 0});
      of.push_back(helper.get());
    }
    const int64_t left_ns = deadline_ns - MonotonicNs();
    if (events.empty() || left_ns <= 0) return;
    if (poll(events.data(), events.size(), static_cast<int>(left_ns / 1'000'000) + 1) <= 0)
      continue;
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].revents != 0) of[i]->OnReadable();
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<SelfTestResult>> RunSelfTestsApart(
    absl::Span<const FabricRequest> requests, const SelfTestOptions& options) {
  absl::StatusOr<std::string> program = options.program;
  if (program->empty()) {
    program = FindInstalledProgram(kProgram, "tries a fabric in a process of its own");
  }
  if (!program.ok()) return program.status();
  // Helpers see the environment that this process's own fabrics will have.
  PrepareEnvironment();
  std::vector<SelfTestResult> results(requests.size());
  std::vector<std::unique_ptr<Helper>> helpers(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    absl::StatusOr<std::unique_ptr<Helper>> helper = Helper::Start(*program, requests[i], options);
    if (helper.ok()) {
      helpers[i] = *std::move(helper);
    } else {
      results[i].status = helper.status();
    }
  }
  Await(helpers, kPatience * options.limit);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (helpers[i] != nullptr) results[i] = helpers[i]->Finish();
  }
  return results;
}

}  // namespace invoker::transport
