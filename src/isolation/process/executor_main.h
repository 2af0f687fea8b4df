// An executor's process, from the inside: one Worker with one executor thread, and a socket over
// which the server opens sessions and loads code. And the template that such processes are forked
// from, which has libfabric started already: that takes longer than all the rest.
//
// Both are what the program invoker_executor does; another program that runs functions of another
// language calls them with hooks of its own.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_MAIN_H_
#define INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_MAIN_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "src/base/unique_fd.h"
#include "src/invoke/function/function_registry.h"

namespace invoker {

struct ExecutorHooks {
  // Makes a function of the file at `path`, which stays only until this returns. On the main
  // thread. What the entry points to must live as long as the process. Unset: there are no Python
  // functions here.
  std::function<absl::StatusOr<FunctionEntry>(const std::string& path, const std::string& name)>
      load_python;
  // Around each fork of the template, on its only thread. Any may be unset.
  std::function<void()> before_fork;
  std::function<void()> after_fork_parent;
  std::function<void()> after_fork_child;  // before RunExecutor in the child
};

// The descriptors that a server starts these programs with.
inline constexpr int kControlFd = 3;
inline constexpr int kPageFd = 4;  // in an executor

// How the server starts them: the only argument.
inline constexpr char kTemplateArgument[] = "--template";
inline constexpr char kExecutorArgument[] = "--executor";

// Serves what comes over `control`; returns never, since the process is ended by the server, by a
// function, or, quietly, when the socket closes.
[[noreturn]] void RunExecutor(UniqueFd control, UniqueFd page, const ExecutorHooks& hooks);

// Forks executors as the server asks over `control`, until that closes; then ends them all and
// returns the program's exit status. The process must have one thread.
int RunTemplate(UniqueFd control, const ExecutorHooks& hooks);

// What main() of such a program does: tells a person who has started it by hand that this is not
// how, and else runs what the server wants.
int RunStartedByServer(int argc, char** argv, const ExecutorHooks& hooks);

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_MAIN_H_
