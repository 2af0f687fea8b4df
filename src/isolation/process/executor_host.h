// What an executor's process answers to its server, request by request. One thread, where nothing
// else is said.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_HOST_H_
#define INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_HOST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "proto/executor_control.pb.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/worker/worker.h"
#include "src/isolation/process/control_socket.h"
#include "src/isolation/process/executor_main.h"
#include "src/isolation/process/executor_page.h"

namespace invoker {

class ExecutorHost {
 public:
  // All outlive it.
  ExecutorHost(ControlSocket* socket, ExecutorPage* page, const ExecutorHooks* hooks)
      : socket_(socket), page_(page), hooks_(hooks) {}

  // Loads the libraries, which came as `fds`, and opens the endpoints.
  absl::StatusOr<isolation::v1::FromExecutor> Start(const isolation::v1::Environment& environment,
                                                    std::vector<UniqueFd> fds);

  // The answer, without its id. `start` must have succeeded. Most requests wait for the function
  // that runs.
  isolation::v1::FromExecutor Answer(const isolation::v1::ToExecutor& request,
                                     std::vector<UniqueFd> fds);

  // Whether the request waits for no function.
  static bool IsPrompt(const isolation::v1::ToExecutor& request) {
    return request.has_find_request() || request.has_register_window() ||
           request.has_forget_window();
  }
  // The same for requests that are prompt. Any thread, once started: the worker is all that they
  // touch. Takes 100 ms at most. Never returns once Stop is about to end the process.
  isolation::v1::FromExecutor AnswerPrompt(const isolation::v1::ToExecutor& request)
      ABSL_LOCKS_EXCLUDED(prompt_mutex_);

  // Any thread, once started, and not once Stop may have been called. Does not block.
  void Drain() { worker_->Drain(); }

  [[noreturn]] void Stop(absl::Duration limit) ABSL_LOCKS_EXCLUDED(prompt_mutex_);

 private:
  // `name` is what messages call the file.
  absl::StatusOr<std::vector<FunctionEntry>> LoadLibrary(const std::string& path,
                                                         const std::string& name, UniqueFd fd);
  absl::Status Load(const isolation::v1::ToExecutor::Load& request, UniqueFd fd,
                    isolation::v1::FromExecutor* answer);
  absl::Status Do(const isolation::v1::ToExecutor& request, std::vector<UniqueFd> fds,
                  isolation::v1::FromExecutor* answer);
  absl::Status Configure(const isolation::v1::ToExecutor::Configure& request);
  void Tell(const isolation::v1::FromExecutor& event);

  ControlSocket* const socket_;
  ExecutorPage* const page_;
  const ExecutorHooks* const hooks_;
  std::vector<std::unique_ptr<FunctionLibrary>> libraries_;  // never unloaded
  std::vector<UniqueFd> library_fds_;  // their numbers are part of names that must not come again
  std::unique_ptr<Worker> worker_;
  absl::Mutex
      prompt_mutex_;  // shared while worker_ is used for a prompt request; held when it goes
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_HOST_H_
