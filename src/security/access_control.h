// Who is asking, and may they ask: the tokens and the policy of a server, as their files say now.
//
// Files are looked at whenever somebody asks, and read again when they have changed; a file that
// has become unusable is reported once, and what was read from it before stays in force. One that
// could not be read for want of something else is tried again whenever somebody asks. Any thread.

#ifndef INVOKER_SRC_SECURITY_ACCESS_CONTROL_H_
#define INVOKER_SRC_SECURITY_ACCESS_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/security/policy.h"
#include "src/security/watched_file.h"

namespace invoker::security {

struct AccessOptions {
  // At most one of them. None: nobody is asked.
  std::string token_file;   // every holder of one of its tokens may do everything
  std::string policy_file;  // proto/policy.proto
};

// What has been asked under which name.
struct Caller {
  std::string name;                      // the tenant's, by the policy; empty without one
  std::shared_ptr<const Tenant> tenant;  // nullptr: no policy
};

// PERMISSION_DENIED if the policy shows the caller its own usage only.
absl::Status CheckSeesOthers(const Caller& caller);

class AccessControl {
 public:
  // Reads the files: unlike later, one that is no good is an error.
  static absl::StatusOr<std::unique_ptr<AccessControl>> Open(AccessOptions options);
  AccessControl(const AccessControl&) = delete;
  AccessControl& operator=(const AccessControl&) = delete;

  // Whether anybody has to show anything.
  bool required() const { return !options_.token_file.empty() || !options_.policy_file.empty(); }

  // `authorization` is the request's metadata of that name, or empty. `certificate` is what the
  // connection has shown and the server has verified; its token is not looked at. UNAUTHENTICATED
  // says what is missing, and never what was sent.
  absl::StatusOr<Caller> Identify(absl::string_view authorization, Shown certificate)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Reads the files again, changed or not, and says in the log what came of it.
  void Reload() ABSL_LOCKS_EXCLUDED(mutex_);

  // Requests refused so far.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct State {
    std::vector<Sha256Digest> tokens;
    Policy policy;
  };

  explicit AccessControl(AccessOptions options) : options_(std::move(options)) {}

  const std::string& path() const {
    return options_.policy_file.empty() ? options_.token_file : options_.policy_file;
  }
  absl::StatusOr<std::shared_ptr<const State>> Read() const;
  // What the file says now.
  std::shared_ptr<const State> Current() ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads the file whose stamp is `now`.
  void ReadAgain(const FileStamp& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccessOptions options_;
  std::atomic<uint64_t> refused_{0};
  absl::Mutex mutex_;
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);       // the file that was read, or is no good
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // it could not be read, and that has been told
  std::shared_ptr<const State> state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_ACCESS_CONTROL_H_
