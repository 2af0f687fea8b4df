// The Python package with arguments of every kind: python_target.py, in an interpreter of this
// process, makes objects of the fuzzer's bytes and calls the package with them. Which lines of the
// package ran is the fuzzer's coverage.

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// libFuzzer reads what is in this section as it does the counters of instrumented code.
constexpr size_t kCounters = 1 << 15;
__attribute__((section("__libfuzzer_extra_counters"))) uint8_t counters[kCounters];

PyObject* run = nullptr;

[[noreturn]] void Give(const char* what) {
  fprintf(stderr, "%s\n", what);
  PyErr_Print();
  abort();
}

// Whether a file is the package's: others' lines say nothing of it.
bool IsOurs(PyCodeObject* code) {
  const char* name = PyUnicode_AsUTF8(code->co_filename);
  return name != nullptr && strstr(name, "/invoker/") != nullptr;
}

int Trace(PyObject*, PyFrameObject* frame, int what, PyObject*) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  if (what == PyTrace_CALL && !IsOurs(code)) {
    PyObject_SetAttrString(reinterpret_cast<PyObject*>(frame), "f_trace_lines", Py_False);
  } else if (what == PyTrace_LINE) {
    const auto place = static_cast<size_t>(PyFrame_GetLineNumber(frame)) * 131 +
                       static_cast<size_t>(PyObject_Hash(code->co_qualname)) * 31;
    ++counters[place % kCounters];
  }
  Py_DECREF(code);
  return 0;
}

void Begin() {
  Py_InitializeEx(0);
  // The same hashes in every run, or counters would mean nothing: PYTHONHASHSEED is set.
  PyRun_SimpleString("import sys; sys.path[:0] = ['src/python', 'tests/fuzz']");
  PyObject* module = PyImport_ImportModule("python_target");
  if (module == nullptr) Give("python_target cannot be imported");
  run = PyObject_GetAttrString(module, "run");
  if (run == nullptr) Give("python_target has no run");
  PyEval_SetTrace(Trace, nullptr);
  // Executors of servers in this process need the interpreter, too.
  PyEval_SaveThread();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("PYTHONHASHSEED", "1", 1);
  setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  Begin();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject* bytes =
      PyBytes_FromStringAndSize(reinterpret_cast<const char*>(data), static_cast<Py_ssize_t>(size));
  PyObject* result = PyObject_CallOneArg(run, bytes);
  Py_DECREF(bytes);
  if (result == nullptr) Give("more than an exception");
  Py_DECREF(result);
  PyGILState_Release(state);
  return 0;
}
