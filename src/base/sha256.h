// SHA-256, which uploaded code is known by. The algorithm is OpenSSL's.

#ifndef INVOKER_SRC_BASE_SHA256_H_
#define INVOKER_SRC_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

struct evp_md_ctx_st;

namespace invoker {

struct Sha256Digest {
  static constexpr size_t kBytes = 32;

  std::array<uint8_t, kBytes> bytes = {};

  // Nothing if it is not kBytes long.
  static absl::optional<Sha256Digest> FromBytes(absl::string_view bytes);
  // Nothing if it is not 64 of the digits 0-9 a-f.
  static absl::optional<Sha256Digest> FromHex(absl::string_view hex);

  std::string ToBytes() const;
  std::string ToHex() const;

  friend bool operator==(const Sha256Digest& a, const Sha256Digest& b) {
    return a.bytes == b.bytes;
  }
  friend bool operator!=(const Sha256Digest& a, const Sha256Digest& b) { return !(a == b); }
  template <typename H>
  friend H AbslHashValue(H state, const Sha256Digest& digest) {
    return H::combine(std::move(state), digest.bytes);
  }
};

// Hashes bytes that come in pieces. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);

  // Once, and then nothing more. INTERNAL if OpenSSL could not do it (out of memory, or a
  // configuration that does not have SHA-256).
  absl::StatusOr<Sha256Digest> Finish();

 private:
  evp_md_ctx_st* context_;
  bool failed_ = false;
};

absl::StatusOr<Sha256Digest> HashOf(absl::string_view bytes);

// Hashes what is left to read. Errors are errno's.
absl::StatusOr<Sha256Digest> HashOfFile(int file);

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_SHA256_H_
