// What `invoker doctor` says about one thing.

#ifndef INVOKER_TOOLS_DOCTOR_FINDING_H_
#define INVOKER_TOOLS_DOCTOR_FINDING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace invoker::tools {

enum class FindingKind {
  kOk,
  kNote,     // calls work, but something could be better or is not there
  kProblem,  // something does not work, or soon will not
};

struct Finding {
  FindingKind kind;
  std::string subject;  // "memlock"
  std::string text;
  std::string help = {};  // what to do, with the command; empty: nothing
};

bool HasProblem(const std::vector<Finding>& findings);

// For people: a line for each finding, and a line below it with what helps.
std::string FindingsAsText(absl::string_view version, const std::vector<Finding>& findings);

// {"version", "ok", "findings": [{"kind", "subject", "text", "help"}]}
std::string FindingsAsJson(absl::string_view version, const std::vector<Finding>& findings);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_DOCTOR_FINDING_H_
