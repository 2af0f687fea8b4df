// The session tokens that leases' streams have granted: each opens one session, under its own
// lease, for as long as it is fresh.
//
// So a request to open a session that somebody has kept, or knows the lease's id for, opens
// nothing. Any thread; nothing blocks.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_SESSION_TOKENS_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_SESSION_TOKENS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/base/sha256.h"

namespace invoker::bootstrap {

class SessionTokens {
 public:
  // At a time; a client asks for more when it needs them.
  static constexpr uint32_t kMostAtOnce = 64;
  // For one lease, spent ones included: the oldest make room.
  static constexpr size_t kMostOfLease = 512;

  // Tokens that were refused.
  struct Counters {
    uint64_t unknown = 0;   // never granted, or long ago
    uint64_t replayed = 0;  // has opened a session already
    uint64_t expired = 0;
    uint64_t foreign = 0;  // another lease's
    uint64_t total() const { return unknown + replayed + expired + foreign; }
  };

  explicit SessionTokens(absl::Duration expiry)
      : expiry_(absl::ToChronoNanoseconds(expiry)), expiry_text_(absl::FormatDuration(expiry)) {}

  absl::Duration expiry() const { return absl::FromChrono(expiry_); }

  absl::StatusOr<std::vector<std::string>> Grant(uint64_t lease, uint32_t count)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // PERMISSION_DENIED says what is wrong with it. A token of another lease stays good for that.
  absl::Status Spend(uint64_t lease, absl::string_view token) ABSL_LOCKS_EXCLUDED(mutex_);
  // The lease's stream is over.
  void Forget(uint64_t lease) ABSL_LOCKS_EXCLUDED(mutex_);

  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  struct Token {
    uint64_t lease = 0;
    Clock::time_point expires_at;
    bool spent = false;
  };

  const Clock::duration expiry_;
  const std::string expiry_text_;
  mutable absl::Mutex mutex_;
  // By their digests: where a look-up ends says nothing about a token.
  absl::flat_hash_map<Sha256Digest, Token> tokens_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::deque<Sha256Digest>> of_lease_ ABSL_GUARDED_BY(mutex_);
  Counters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_SESSION_TOKENS_H_
