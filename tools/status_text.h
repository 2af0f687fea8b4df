// Counts, times and names as tables for people show them: short, and with a unit.

#ifndef INVOKER_TOOLS_STATUS_TEXT_H_
#define INVOKER_TOOLS_STATUS_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace invoker::tools {

// At most 6 characters: "9999", "12.3k", "4.57M".
std::string ShowCount(double count);
// "1.5 GiB".
std::string ShowBytes(uint64_t bytes);
// "812 us", "1.2 ms"; "-" for 0.
std::string ShowTime(double seconds);
// What another program has sent: one line without control characters, cut at `width`.
std::string ShowName(absl::string_view name, size_t width);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_STATUS_TEXT_H_
