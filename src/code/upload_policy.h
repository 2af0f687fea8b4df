// What clients may bring along to a worker.

#ifndef INVOKER_SRC_CODE_UPLOAD_POLICY_H_
#define INVOKER_SRC_CODE_UPLOAD_POLICY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker {

enum class UploadPolicy {
  kNone,
  kLibrary,  // shared libraries
  kPython,   // Python functions
  kAll,
};

// The value of --allow-upload: "none", "library", "python", "all".
const char* UploadPolicyName(UploadPolicy policy);
absl::optional<UploadPolicy> ParseUploadPolicy(absl::string_view name);

// PERMISSION_DENIED says with which flag the worker would have to be started.
absl::Status CheckUploadAllowed(UploadPolicy policy, CodeKind kind);
// The same, for a file that may become either.
absl::Status CheckAnyUploadAllowed(UploadPolicy policy);

}  // namespace invoker

#endif  // INVOKER_SRC_CODE_UPLOAD_POLICY_H_
