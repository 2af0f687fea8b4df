#include "src/security/token.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/security/watched_file.h"

namespace invoker::security {
namespace {

// RFC 6750, b64token.
bool IsTokenByte(char byte) {
  return absl::ascii_isalnum(static_cast<unsigned char>(byte)) ||
         absl::string_view("-._~+/=").find(byte) != absl::string_view::npos;
}

}  // namespace

absl::Status CheckToken(absl::string_view token) {
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token has ", token.size(), " characters; it needs ", kMinTokenBytes,
                     " to ", kMaxTokenBytes, ": make one with `openssl rand -base64 24`"));
  }
  if (!std::all_of(token.begin(), token.end(), IsTokenByte)) {
    return absl::InvalidArgumentError(
        "the token has a character that none may have; they are A-Z a-z 0-9 - . _ ~ + / =");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadTokenFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile("the token file", path, Secrecy::kSecret);
  if (!text.ok()) return text.status();
  std::vector<std::string> tokens;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (absl::Status status = CheckToken(line); !status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the token file ", path, ", line ", number, ": ", status.message()));
    }
    tokens.emplace_back(line);
  }
  if (tokens.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the token file ", path, " has no token; make one with `openssl rand -base64 24`"));
  }
  return tokens;
}

bool SameDigest(const Sha256Digest& a, const Sha256Digest& b) {
  return CRYPTO_memcmp(a.bytes.data(), b.bytes.data(), Sha256Digest::kBytes) == 0;
}

}  // namespace invoker::security
