#include "src/isolation/process/executor_main.h"

#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "proto/executor_control.pb.h"
#include "src/base/fork_guard.h"
#include "src/isolation/process/control_socket.h"
#include "src/isolation/process/end_handlers.h"
#include "src/isolation/process/executor_host.h"
#include "src/isolation/process/nanoseconds.h"
#include "src/isolation/process/process_setup.h"
#include "src/isolation/process/request_queue.h"

namespace invoker {
namespace {

using isolation::v1::FromExecutor;
using isolation::v1::ToExecutor;

// UNAVAILABLE if the server is gone.
absl::StatusOr<ExecutorRequest> Next(ControlSocket* socket) {
  absl::StatusOr<ControlSocket::Message> message = socket->Receive(/*wait=*/true);
  if (!message.ok()) return message.status();
  ExecutorRequest request;
  if (!request.message.ParseFromString(message->bytes)) {
    return absl::UnavailableError("the server has sent what is no request");
  }
  request.fds = std::move(message->fds);
  return request;
}

// Twice what the server asks at a time: each of its 2048 threads waits for one answer.
constexpr size_t kMostOrdered = 4096;
// Each may take the 100 ms for which it looks, and a client waits for 10 s at most.
constexpr size_t kMostQuestions = 128;
// More than a lease asks at a time.
constexpr size_t kMostMemory = 512;

struct Queues {
  RequestQueue ordered{kMostOrdered};      // the main thread's
  RequestQueue questions{kMostQuestions};  // one ServePrompt's
  RequestQueue memory{kMostMemory};        // another one's

  RequestQueue& For(const ToExecutor& request) {
    if (!ExecutorHost::IsPrompt(request)) return ordered;
    return request.has_find_request() ? questions : memory;
  }
};

void SendReply(ControlSocket* socket, uint64_t id, FromExecutor* answer) {
  answer->set_id(id);
  if (!socket->Send(answer->SerializeAsString(), {}, /*wait=*/true).ok()) EndQuietly();
}

void Refuse(ControlSocket* socket, uint64_t id) {
  FromExecutor answer;
  answer.set_status(static_cast<uint32_t>(absl::StatusCode::kResourceExhausted));
  answer.set_text("too many requests wait for this executor; try again");
  SendReply(socket, id, &answer);
}

// Reads on, so that the end of the server and the word to drain are heard while a request waits for
// a function to end.
void Read(ControlSocket* socket, ExecutorHost* host, Queues* queues) {
  UseSignalStack();
  bool stopping = false;
  while (true) {
    absl::StatusOr<ExecutorRequest> request = Next(socket);
    // What it has left in /dev/shm is cleared by who forked it.
    if (!request.ok()) EndQuietly();
    const ToExecutor& message = request->message;
    // Stop ends what drains.
    if (!stopping && (message.has_drain() || message.has_stop())) host->Drain();
    stopping |= message.has_stop();
    if (message.has_drain()) continue;
    const uint64_t id = message.id();
    if (!queues->For(message).Put(&*request)) Refuse(socket, id);
  }
}

// Serves what must not wait behind a request that waits for a function to end: memory that a client
// lends or takes back, and what a client asks that fears for its calls. What such a request names
// has been given to the client by an answer from the main thread, so none comes too early.
void ServePrompt(ControlSocket* socket, ExecutorHost* host, RequestQueue* queue) {
  UseSignalStack();
  while (true) {
    const ExecutorRequest request = queue->Take();
    FromExecutor answer = host->AnswerPrompt(request.message);
    SendReply(socket, request.message.id(), &answer);
  }
}

}  // namespace

void RunExecutor(UniqueFd control, UniqueFd page_fd, const ExecutorHooks& hooks) {
  signal(SIGPIPE, SIG_IGN);
  // Before there are threads, which inherit what is blocked.
  IgnoreEndSignals();
  // One heap for all threads. A further one would reserve 64 MiB of address space, which counts
  // against the memory limit, and where there is no room for it leave ENOMEM behind in a thread
  // that has its memory all the same.
  mallopt(M_ARENA_MAX, 1);
  absl::StatusOr<MappedPage> page = MappedPage::Map(page_fd.get());
  if (!page.ok()) EndQuietly();
  page_fd.Reset();
  // Never destroyed: the process ends first.
  auto* socket = new ControlSocket(std::move(control), ControlSocket::Takes::kDescriptors);
  auto* host = new ExecutorHost(socket, page->get(), &hooks);
  auto* queues = new Queues;

  absl::StatusOr<ExecutorRequest> start = Next(socket);
  if (!start.ok() || !start->message.has_start()) EndQuietly();
  absl::StatusOr<FromExecutor> started = host->Start(start->message.start(), std::move(start->fds));
  FromExecutor answer;
  if (started.ok()) {
    answer = *std::move(started);
  } else {
    answer.set_status(static_cast<uint32_t>(started.status().code()));
    answer.set_text(std::string(started.status().message()));
  }
  // Not before: the template's own forks are executors.
  InstallForkGuard();
  SendReply(socket, start->message.id(), &answer);
  if (!started.ok()) EndQuietly();

  std::thread(&ServePrompt, socket, host, &queues->questions).detach();
  std::thread(&ServePrompt, socket, host, &queues->memory).detach();
  std::thread(&Read, socket, host, queues).detach();
  while (true) {
    ExecutorRequest request = queues->ordered.Take();
    if (request.message.has_stop()) {
      host->Stop(FromNanoseconds(request.message.stop().limit_ns()));
    }
    answer = host->Answer(request.message, std::move(request.fds));
    SendReply(socket, request.message.id(), &answer);
  }
}

int RunStartedByServer(int argc, char** argv, const ExecutorHooks& hooks) {
  struct stat control;
  const bool by_server = argc == 2 && fstat(kControlFd, &control) == 0 && S_ISSOCK(control.st_mode);
  if (by_server && strcmp(argv[1], kTemplateArgument) == 0) {
    return RunTemplate(UniqueFd(kControlFd), hooks);
  }
  if (by_server && strcmp(argv[1], kExecutorArgument) == 0) {
    RunExecutor(UniqueFd(kControlFd), UniqueFd(kPageFd), hooks);
  }
  fprintf(stderr,
          "%s: invoker_server starts this program, for leases with executors of their own; it does "
          "nothing when started by hand. See `invoker_server --help`\n",
          argc > 0 ? argv[0] : "invoker_executor");
  return 2;
}

}  // namespace invoker
