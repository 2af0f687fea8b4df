// Bearer tokens: what is in a token file, and how a presented one is compared.
//
// Any thread. A token itself is kept only by who has to send it; servers keep digests.

#ifndef INVOKER_SRC_SECURITY_TOKEN_H_
#define INVOKER_SRC_SECURITY_TOKEN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/sha256.h"

namespace invoker::security {

// 24 random bytes as `openssl rand -base64 24` writes them have 32 characters.
inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 4096;

// The metadata that carries it, and what stands in front of it there.
inline constexpr char kTokenMetadata[] = "authorization";
inline constexpr char kTokenScheme[] = "Bearer ";

// The tokens of a file, one a line; empty lines and those that begin with # are left out. A client
// sends the first one; a server takes each, so that a new one can be taken before the old one is
// given up. Errors name file and line and never what stands there.
absl::StatusOr<std::vector<std::string>> ReadTokenFile(const std::string& path);

// INVALID_ARGUMENT for what cannot be sent as a token, or is too short to be one.
absl::Status CheckToken(absl::string_view token);

// In a time that does not depend on where they differ.
bool SameDigest(const Sha256Digest& a, const Sha256Digest& b);

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_TOKEN_H_
