// Finds the programs that are installed together with this one.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_INSTALLED_PROGRAM_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_INSTALLED_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker::transport {

// The path of the executable file `name`: beside this process's program or in ../lib/invoker, or
// else beside the shared library that this code is in (a Python extension, say) or in the folder
// lib/invoker that was installed with it. NOT_FOUND says where it was looked for; `purpose`
// completes "there is no program NAME, which ...". Any thread.
absl::StatusOr<std::string> FindInstalledProgram(absl::string_view name, absl::string_view purpose);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_INSTALLED_PROGRAM_H_
