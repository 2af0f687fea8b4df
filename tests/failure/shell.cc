#include "tests/failure/shell.h"

#include "absl/strings/str_cat.h"
#include "tests/integration/child_process.h"

namespace invoker::failure {

absl::Status RunInShell(const std::string& command) {
  const Finished finished = RunToEnd({{"/bin/sh", "-ec", command}});
  if (finished.exit_code == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("\"", command, "\" ended with ", finished.exit_code, ": ", finished.errors));
}

}  // namespace invoker::failure
