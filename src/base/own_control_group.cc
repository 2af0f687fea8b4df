#include "src/base/own_control_group.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace invoker {
namespace {

bool Lists(absl::string_view list, absl::string_view word) {
  const std::vector<absl::string_view> words = absl::StrSplit(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Undoes mountinfo's way to write what would end a word.
std::string Unescaped(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = -1;
    if (text[i] == '\\' && i + 3 < text.size()) {
      code = 0;
      for (size_t at = i + 1; at <= i + 3; ++at) {
        code = text[at] >= '0' && text[at] <= '7' && code >= 0 ? code * 8 + (text[at] - '0') : -1;
      }
    }
    plain.push_back(code >= 0 ? static_cast<char>(code) : text[i]);
    if (code >= 0) i += 3;
  }
  return plain;
}

absl::Status None(absl::string_view why) { return absl::FailedPreconditionError(why); }

}  // namespace

absl::StatusOr<std::string> FindOwnGroup(absl::string_view cgroup, absl::string_view mountinfo,
                                         absl::string_view controller) {
  const std::string kind =
      controller.empty() ? "cgroups, version 2" : absl::StrCat(controller, " cgroups, version 1");
  std::string own;
  for (const absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    // NUMBER:CONTROLLERS:GROUP; version 2 has number 0 and no controllers.
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool is_it =
        controller.empty() ? parts[0] == "0" && parts[1].empty() : Lists(parts[1], controller);
    if (is_it) own = std::string(parts[2]);
  }
  if (own.empty() || own[0] != '/')
    return None(absl::StrCat("this kernel or machine has no ", kind));
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    // ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 1 >= words.size()) continue;
    const absl::string_view type = words[dash + 1];
    const bool is_it = controller.empty() ? type == "cgroup2"
                                          : type == "cgroup" && dash + 3 < words.size() &&
                                                Lists(words[dash + 3], controller);
    if (!is_it) continue;
    const std::string root = Unescaped(words[3]);
    std::string place = Unescaped(words[4]);
    absl::string_view beneath = own;
    // A part of them only is mounted here: the one that a container may see, say.
    if (root != "/" &&
        (!absl::ConsumePrefix(&beneath, root) || (!beneath.empty() && beneath[0] != '/'))) {
      continue;
    }
    if (beneath != "/") absl::StrAppend(&place, beneath);
    return place;
  }
  return None(absl::StrCat("no ", kind, ", are mounted that hold this process's (", own, ")"));
}

}  // namespace invoker
