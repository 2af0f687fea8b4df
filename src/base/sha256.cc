#include "src/base/sha256.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/escaping.h"
#include "src/base/hex.h"

namespace invoker {
namespace {

constexpr size_t kReadBytes = 256 << 10;

}  // namespace

absl::optional<Sha256Digest> Sha256Digest::FromBytes(absl::string_view bytes) {
  if (bytes.size() != kBytes) return absl::nullopt;
  Sha256Digest digest;
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

absl::optional<Sha256Digest> Sha256Digest::FromHex(absl::string_view hex) {
  const absl::optional<std::string> bytes = BytesFromHex(hex);
  return bytes.has_value() ? FromBytes(*bytes) : absl::nullopt;
}

std::string Sha256Digest::ToBytes() const { return std::string(bytes.begin(), bytes.end()); }

std::string Sha256Digest::ToHex() const { return absl::BytesToHexString(ToBytes()); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  failed_ = context_ == nullptr || EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) != 1;
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::Update(absl::string_view bytes) {
  failed_ = failed_ || EVP_DigestUpdate(context_, bytes.data(), bytes.size()) != 1;
}

absl::StatusOr<Sha256Digest> Sha256::Finish() {
  Sha256Digest digest;
  unsigned length = 0;
  if (failed_ || EVP_DigestFinal_ex(context_, digest.bytes.data(), &length) != 1 ||
      length != Sha256Digest::kBytes) {
    return absl::InternalError("OpenSSL cannot compute SHA-256 here");
  }
  return digest;
}

absl::StatusOr<Sha256Digest> HashOf(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

absl::StatusOr<Sha256Digest> HashOfFile(int file) {
  Sha256 hash;
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const ssize_t got = read(file, buffer.data(), buffer.size());
    if (got == 0) return hash.Finish();
    if (got > 0) {
      hash.Update({buffer.data(), static_cast<size_t>(got)});
    } else if (errno != EINTR) {
      return absl::ErrnoToStatus(errno, "cannot read it");
    }
  }
}

}  // namespace invoker
