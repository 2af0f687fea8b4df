#include "src/security/tenant.h"

#include <algorithm>

namespace invoker::security {

bool MatchesGlob(absl::string_view glob, absl::string_view text) {
  // Where to go on if what follows the last star does not fit: one character more is the star's.
  size_t star = absl::string_view::npos;
  size_t resume = 0;
  size_t g = 0;
  size_t t = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = ++g;
      resume = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != absl::string_view::npos) {
      g = star;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool Tenant::MayCall(absl::string_view function) const {
  return std::any_of(functions.begin(), functions.end(),
                     [function](const std::string& glob) { return MatchesGlob(glob, function); });
}

}  // namespace invoker::security
