// Python's signal handlers, which run on the main thread only, and only when it asks. All of this
// is for who has the GIL, but where it says otherwise.

#ifndef INVOKER_SRC_PYTHON_NATIVE_SIGNALS_H_
#define INVOKER_SRC_PYTHON_NATIVE_SIGNALS_H_

#include "absl/time/time.h"

namespace invoker::python {

// How long a handler may have to wait for a main thread that waits here. The kernel gives a signal
// to any of the process's threads, and if that is another one nothing wakes the main thread.
inline constexpr absl::Duration kSignalsLookedAtEvery = absl::Milliseconds(100);

// Tells which thread is the interpreter's main thread. Once, when the module is imported.
void PrepareSignals();

// Whether this is that thread. With or without the GIL.
bool OnMainThread();

// Runs Python's signal handlers; true if one raised. The exception stays with the thread. With or
// without the GIL. False on other threads.
bool SignalRaised();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_SIGNALS_H_
