#include "tools/doctor/finding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace invoker::tools {
namespace {

using nlohmann::ordered_json;

absl::string_view KindName(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOk:
      return "ok";
    case FindingKind::kNote:
      return "note";
    case FindingKind::kProblem:
      return "problem";
  }
  return "";
}

}  // namespace

bool HasProblem(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.kind == FindingKind::kProblem; });
}

std::string FindingsAsText(absl::string_view version, const std::vector<Finding>& findings) {
  std::string page = absl::StrCat("Invoker ", version, "\n\n");
  size_t problems = 0;
  for (const Finding& finding : findings) {
    problems += finding.kind == FindingKind::kProblem ? 1 : 0;
    absl::StrAppend(&page, absl::StrFormat("%-8s %-13s %s\n", KindName(finding.kind),
                                           finding.subject, finding.text));
    if (!finding.help.empty()) absl::StrAppend(&page, std::string(23, ' '), finding.help, "\n");
  }
  absl::StrAppend(&page, "\n", problems == 0 ? "no problems" : absl::StrCat("problems: ", problems),
                  "\n");
  return page;
}

std::string FindingsAsJson(absl::string_view version, const std::vector<Finding>& findings) {
  ordered_json json;
  json["version"] = std::string(version);
  json["ok"] = !HasProblem(findings);
  json["findings"] = ordered_json::array();
  for (const Finding& finding : findings) {
    ordered_json each;
    each["kind"] = std::string(KindName(finding.kind));
    each["subject"] = finding.subject;
    each["text"] = finding.text;
    each["help"] = finding.help.empty() ? ordered_json() : ordered_json(finding.help);
    json["findings"].push_back(each);
  }
  // What a server says need not be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace invoker::tools
