#include "src/python/native/server/executor_program.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <exception>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/isolation/process/executor_main.h"
#include "src/python/native/server/python_function.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// What the exception says.
std::string Describe(const py::error_already_set& error) {
  try {
    const py::object text =
        py::module_::import("invoker._native.failures").attr("describe")(error.value());
    return py::cast<std::string>(text);
  } catch (const std::exception&) {
    return "it raised an exception that cannot be described";
  }
}

// With the GIL.
absl::StatusOr<FunctionEntry> LoadPython(const std::string& path, const std::string& name) {
  try {
    const auto [callable, signature, concurrency, coroutine] =
        py::module_::import("invoker.executor")
            .attr("load")(path)
            .cast<std::tuple<py::object, std::string, uint32_t, bool>>();
    // For as long as the process lives.
    auto* function =
        signature.empty()
            ? new PythonFunction(callable, PythonFunction::Form::kFramed, coroutine)
            : new PythonFunction(callable, SignatureCodec::Parse(signature), coroutine);
    return function->Entry(name, "", absl::StrCat("the Python function ", name), concurrency);
  } catch (py::error_already_set& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the Python function \"", name, "\" cannot be loaded: ", Describe(error)));
  }
}

// The GIL, as the main thread has it while it is in C++: not at all, but for the hooks.
class MainThread {
 public:
  void Leave() { state_ = PyEval_SaveThread(); }
  void Enter() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_ = nullptr;
};

}  // namespace

int RunExecutorProgram(const std::vector<std::string>& arguments) {
  // The process ends before it does.
  auto* main_thread = new MainThread;
  ExecutorHooks hooks;
  hooks.load_python = [main_thread](const std::string& path, const std::string& name) {
    main_thread->Enter();
    absl::StatusOr<FunctionEntry> entry = LoadPython(path, name);
    main_thread->Leave();
    return entry;
  };
  hooks.before_fork = [main_thread] {
    main_thread->Enter();
    PyOS_BeforeFork();
  };
  hooks.after_fork_parent = [main_thread] {
    PyOS_AfterFork_Parent();
    main_thread->Leave();
  };
  hooks.after_fork_child = [main_thread] {
    PyOS_AfterFork_Child();
    main_thread->Leave();
  };
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers;
  for (std::string& argument : copies) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  main_thread->Leave();
  const int status = RunStartedByServer(static_cast<int>(copies.size()), pointers.data(), hooks);
  main_thread->Enter();
  return status;
}

}  // namespace invoker::python
