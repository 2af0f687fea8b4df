// Invoker's messages on their way to Python's logging.
//
// Threads that log hold locks of the engine, and must not wait for the interpreter: they leave
// messages here, and a Python thread takes them.

#ifndef INVOKER_SRC_PYTHON_NATIVE_LOG_QUEUE_H_
#define INVOKER_SRC_PYTHON_NATIVE_LOG_QUEUE_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace invoker::python {

// Level by Python's logging, seconds since 1970, thread, lease, session, message.
using LogEntry = std::tuple<int, double, uint64_t, uint64_t, uint64_t, std::string>;

// From now on messages go to the queue. Those beyond 1000 that wait are counted only.
void StartLogQueue();
// They go to standard error again, and TakeLogs returns.
void StopLogQueue();
// Waits for messages, without the GIL. None: the queue has been stopped.
std::vector<LogEntry> TakeLogs();

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_LOG_QUEUE_H_
