#include "src/transport/base/status.h"

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "src/transport/base/libfabric.h"

namespace invoker::transport {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case FI_EAGAIN:
    case FI_ECONNREFUSED:
    case FI_ECONNABORTED:
    case FI_ECONNRESET:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ENETUNREACH:
    case FI_ENETDOWN:
    case FI_EHOSTDOWN:
    case EOWNERDEAD:  // SpinEscape's
      return absl::StatusCode::kUnavailable;
    case FI_ENODATA:
    case FI_ENOENT:
    case FI_ENODEV:
      return absl::StatusCode::kNotFound;
    case FI_EINVAL:
    case FI_EMSGSIZE:
    case FI_ETOOSMALL:
      return absl::StatusCode::kInvalidArgument;
    case FI_ENOMEM:
    case FI_ENOSPC:
    case FI_EMFILE:
    case FI_EOVERRUN:
      return absl::StatusCode::kResourceExhausted;
    case FI_EADDRINUSE:
      return absl::StatusCode::kAlreadyExists;
    case FI_ENOSYS:
    case FI_EOPNOTSUPP:
      return absl::StatusCode::kUnimplemented;
    case FI_ETIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case FI_EACCES:
    case FI_EPERM:
      return absl::StatusCode::kPermissionDenied;
    case FI_ECANCELED:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ToStatus(absl::string_view operation, long return_code) {
  if (return_code == 0) return absl::OkStatus();
  const int error = static_cast<int>(std::labs(return_code));
  return absl::Status(CodeOf(error),
                      absl::StrCat(operation, ": ", fi_strerror(error), " (", -error, ")"));
}

}  // namespace invoker::transport
