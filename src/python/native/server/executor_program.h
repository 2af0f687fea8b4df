// An executor's process that can run Python functions: what `python3 -m invoker.executor` does.

#ifndef INVOKER_SRC_PYTHON_NATIVE_SERVER_EXECUTOR_PROGRAM_H_
#define INVOKER_SRC_PYTHON_NATIVE_SERVER_EXECUTOR_PROGRAM_H_

#include <string>
#include <vector>

namespace invoker::python {

// RunStartedByServer (src/isolation/process/executor_main.h) with Python's hooks: functions are
// loaded by invoker.executor.load, and forks are announced to the interpreter. Called on the main
// thread with the GIL, which it releases; in a process without other threads. Returns the exit
// status, in the template only.
int RunExecutorProgram(const std::vector<std::string>& arguments);

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SERVER_EXECUTOR_PROGRAM_H_
