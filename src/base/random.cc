#include "src/base/random.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include "absl/strings/str_cat.h"

namespace invoker::transport {

absl::Status FillRandom(absl::Span<std::byte> bytes) {
  ssize_t drawn = 0;
  do {
    drawn = getrandom(bytes.data(), bytes.size(), 0);
  } while (drawn < 0 && errno == EINTR);
  if (drawn == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("getrandom gave ", drawn, " of ", bytes.size(), " bytes: ", strerror(errno)));
}

absl::StatusOr<uint64_t> DrawRandom() {
  uint64_t number = 0;
  const absl::Status status = FillRandom({reinterpret_cast<std::byte*>(&number), sizeof(number)});
  if (!status.ok()) return status;
  return number;
}

}  // namespace invoker::transport
