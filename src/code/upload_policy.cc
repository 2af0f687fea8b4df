#include "src/code/upload_policy.h"

#include "absl/strings/str_cat.h"

namespace invoker {

const char* UploadPolicyName(UploadPolicy policy) {
  switch (policy) {
    case UploadPolicy::kNone:
      return "none";
    case UploadPolicy::kLibrary:
      return "library";
    case UploadPolicy::kPython:
      return "python";
    case UploadPolicy::kAll:
      return "all";
  }
  return "unknown";
}

absl::optional<UploadPolicy> ParseUploadPolicy(absl::string_view name) {
  for (const UploadPolicy policy :
       {UploadPolicy::kNone, UploadPolicy::kLibrary, UploadPolicy::kPython, UploadPolicy::kAll}) {
    if (name == UploadPolicyName(policy)) return policy;
  }
  return absl::nullopt;
}

absl::Status CheckUploadAllowed(UploadPolicy policy, CodeKind kind) {
  const bool library = kind == CodeKind::kLibrary;
  const UploadPolicy wanted = library ? UploadPolicy::kLibrary : UploadPolicy::kPython;
  if (policy == wanted || policy == UploadPolicy::kAll) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "this worker runs no ", library ? "shared libraries" : "Python functions",
      " of its clients: it was started with --allow-upload=", UploadPolicyName(policy),
      "; its operator would have to say --allow-upload=", UploadPolicyName(wanted), " or all"));
}

absl::Status CheckAnyUploadAllowed(UploadPolicy policy) {
  if (policy != UploadPolicy::kNone) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "this worker runs no code of its clients: it was started with --allow-upload=none; its "
      "operator would have to say --allow-upload=library, python or all");
}

}  // namespace invoker
