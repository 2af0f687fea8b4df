// Which of the server's environment variables its executors get. The others may hold what is none
// of a client's business, such as credentials of the server's.

#ifndef INVOKER_SRC_ISOLATION_SANDBOX_EXECUTOR_ENVIRONMENT_H_
#define INVOKER_SRC_ISOLATION_SANDBOX_EXECUTOR_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace invoker {

// Those that executors get. A * at the beginning or the end stands for anything. Documented in
// docs/reference/isolation.md.
inline constexpr absl::string_view kExecutorVariables[] = {
    // Any program's.
    "PATH", "HOME", "TZ", "LANG", "LANGUAGE", "LC_*",
    // What it is linked with, and what is there before that.
    "LD_LIBRARY_PATH", "LD_PRELOAD",
    // libfabric's, and the RDMA libraries' beneath it.
    "FI_*", "OFI_*", "RDMAV_*", "IBV_*",
    // How many threads numerical libraries start.
    "OMP_*", "OPENBLAS_*", "MKL_*",
    // Where Python finds modules, and Invoker's own.
    "PYTHON*", "INVOKER_*",
    // Options of sanitizers.
    "*SAN_OPTIONS"};

bool IsExecutorVariable(absl::string_view name);

// Those that executors get of `environment`, "NAME=VALUE" each and a nullptr after the last.
std::vector<std::string> ExecutorEnvironment(const char* const* environment);

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SANDBOX_EXECUTOR_ENVIRONMENT_H_
