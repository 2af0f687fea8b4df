// Text of others, on its way to a terminal.

#ifndef INVOKER_SRC_BASE_PRINTABLE_H_
#define INVOKER_SRC_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace invoker {

// The text with a "?" for each byte of a control character, so that it commands no terminal. Line
// feeds and tabs stay. The second set of control characters, U+0080 to U+009F, is known by its
// UTF-8.
std::string WithoutControls(absl::string_view text);

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_PRINTABLE_H_
