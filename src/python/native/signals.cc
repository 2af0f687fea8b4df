#include "src/python/native/signals.h"

#include <pthread.h>
#include <pybind11/pybind11.h>

namespace invoker::python {
namespace {

namespace py = pybind11;

unsigned long main_thread = 0;

}  // namespace

void PrepareSignals() {
  main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  // In a forked process it is the thread that forked.
  pthread_atfork(nullptr, nullptr, [] { main_thread = PyThread_get_thread_ident(); });
}

bool OnMainThread() { return PyThread_get_thread_ident() == main_thread; }

bool SignalRaised() {
  // A thread that drives calls must not wait for the GIL.
  if (!OnMainThread()) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return raised;
}

}  // namespace invoker::python
