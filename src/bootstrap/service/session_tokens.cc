#include "src/bootstrap/service/session_tokens.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/base/random.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker::bootstrap {

absl::StatusOr<std::vector<std::string>> SessionTokens::Grant(uint64_t lease, uint32_t count) {
  std::vector<std::string> granted;
  std::vector<Sha256Digest> digests;
  for (uint32_t i = 0; i < std::min(count, kMostAtOnce); ++i) {
    std::string token(kSessionTokenBytes, '\0');
    absl::Status status = transport::FillRandom(
        absl::MakeSpan(reinterpret_cast<std::byte*>(token.data()), token.size()));
    if (!status.ok()) return status;
    absl::StatusOr<Sha256Digest> digest = HashOf(token);
    if (!digest.ok()) return digest.status();
    digests.push_back(*digest);
    granted.push_back(std::move(token));
  }
  const Clock::time_point expires_at = Clock::now() + expiry_;
  absl::MutexLock lock(&mutex_);
  std::deque<Sha256Digest>& mine = of_lease_[lease];
  for (const Sha256Digest& digest : digests) {
    tokens_[digest] = {lease, expires_at, false};
    mine.push_back(digest);
    if (mine.size() > kMostOfLease) {
      tokens_.erase(mine.front());
      mine.pop_front();
    }
  }
  return granted;
}

absl::Status SessionTokens::Spend(uint64_t lease, absl::string_view token) {
  absl::StatusOr<Sha256Digest> digest = HashOf(token);
  if (!digest.ok()) return digest.status();
  absl::MutexLock lock(&mutex_);
  const auto found = tokens_.find(*digest);
  if (found == tokens_.end()) {
    ++counters_.unknown;
    return absl::PermissionDeniedError(
        token.empty() ? "no session token came along: the lease's stream grants one for each "
                        "session"
                      : "this server has not granted that session token");
  }
  Token& known = found->second;
  if (known.lease != lease) {
    ++counters_.foreign;
    // The same as for no such token: whose it is, is not the caller's business.
    return absl::PermissionDeniedError("this server has not granted that session token");
  }
  if (known.spent) {
    ++counters_.replayed;
    return absl::PermissionDeniedError(
        "the session token has opened a session already: each opens one");
  }
  if (Clock::now() >= known.expires_at) {
    ++counters_.expired;
    return absl::PermissionDeniedError(absl::StrCat(
        "the session token has expired: it was good for ", expiry_text_, "; ask for a new one"));
  }
  known.spent = true;
  return absl::OkStatus();
}

void SessionTokens::Forget(uint64_t lease) {
  absl::MutexLock lock(&mutex_);
  const auto mine = of_lease_.find(lease);
  if (mine == of_lease_.end()) return;
  for (const Sha256Digest& digest : mine->second) tokens_.erase(digest);
  of_lease_.erase(mine);
}

SessionTokens::Counters SessionTokens::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

}  // namespace invoker::bootstrap
