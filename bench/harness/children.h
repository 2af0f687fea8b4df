// The processes that this one has started, so that a benchmark that is interrupted lets them end
// cleanly: shared-memory fabrics leave files behind where a process is killed.

#ifndef INVOKER_BENCH_HARNESS_CHILDREN_H_
#define INVOKER_BENCH_HARNESS_CHILDREN_H_

#include <sys/types.h>

namespace invoker::bench {

// From the first one on, SIGINT, SIGTERM and SIGHUP are handled: every child gets SIGTERM, also one
// that is stopped, and is waited for; then the signal takes its usual course. One thread.
void AddChild(pid_t pid);

// Before it is reaped.
void RemoveChild(pid_t pid);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_CHILDREN_H_
