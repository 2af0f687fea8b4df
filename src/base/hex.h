// Reads bytes in hexadecimal. absl::BytesToHexString writes them.

#ifndef INVOKER_SRC_BASE_HEX_H_
#define INVOKER_SRC_BASE_HEX_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace invoker {

// The bytes that `hex` names, two lower-case digits each. Nothing if `hex` holds anything else.
absl::optional<std::string> BytesFromHex(absl::string_view hex);

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_HEX_H_
