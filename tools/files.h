// Whole files and pipes, in and out.

#ifndef INVOKER_TOOLS_FILES_H_
#define INVOKER_TOOLS_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker::tools {

// Everything in a file; "-" is standard input. RESOURCE_EXHAUSTED if it has more than `limit`
// bytes.
absl::StatusOr<std::string> ReadInput(const std::string& path, uint64_t limit);

// Whether WriteOutput has a chance: looks, and changes nothing.
absl::Status CheckOutput(const std::string& path);

// Writes all of it to a file; "-" is standard output. A file appears, or is replaced, at once and
// whole, or not at all; what is no regular file (a device, a FIFO) is written to.
absl::Status WriteOutput(const std::string& path, absl::string_view data);

// Writes all of it. `name` is for the message. SIGPIPE must be ignored.
absl::Status WriteAll(int fd, absl::string_view name, absl::string_view data);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_FILES_H_
