// Commands of the system's that a test's network is made with.

#ifndef INVOKER_TESTS_FAILURE_SHELL_H_
#define INVOKER_TESTS_FAILURE_SHELL_H_

#include <string>

#include "absl/status/status.h"

namespace invoker::failure {

// Runs it to its end. An error has what it wrote to standard error.
absl::Status RunInShell(const std::string& command);

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_SHELL_H_
