#include "src/isolation/sandbox/executor_environment.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace invoker {

bool IsExecutorVariable(absl::string_view name) {
  for (absl::string_view pattern : kExecutorVariables) {
    if (absl::ConsumePrefix(&pattern, "*")) {
      if (absl::EndsWith(name, pattern)) return true;
    } else if (absl::ConsumeSuffix(&pattern, "*")) {
      if (absl::StartsWith(name, pattern)) return true;
    } else if (name == pattern) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> ExecutorEnvironment(const char* const* environment) {
  std::vector<std::string> taken;
  for (; *environment != nullptr; ++environment) {
    const absl::string_view entry = *environment;
    // What has no = has no value, and is nobody's.
    const size_t end = entry.find('=');
    if (end != absl::string_view::npos && IsExecutorVariable(entry.substr(0, end))) {
      taken.emplace_back(entry);
    }
  }
  return taken;
}

}  // namespace invoker
