// Probes for perf and bpftrace (USDT): a no-op instruction each, until one is attached to.
// docs/guide/watching.md lists them.

#ifndef INVOKER_SRC_BASE_PROBES_H_
#define INVOKER_SRC_BASE_PROBES_H_

#include <sys/sdt.h>

// Only in functions that a source file defines, and that are not templates: of others the linker
// leaves copies out, which it cannot where they have probes.
#define INVOKER_PROBE2(name, first, second) DTRACE_PROBE2(invoker, name, first, second)

#endif  // INVOKER_SRC_BASE_PROBES_H_
