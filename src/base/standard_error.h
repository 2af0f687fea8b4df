// Where lines for people go if the program has given no other place.

#ifndef INVOKER_SRC_BASE_STANDARD_ERROR_H_
#define INVOKER_SRC_BASE_STANDARD_ERROR_H_

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace invoker {

// "invoker: " and the message, as one line in one write. Any thread.
inline void LogToStandardError(absl::string_view message) {
  const std::string line = absl::StrCat("invoker: ", message, "\n");
  fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_STANDARD_ERROR_H_
