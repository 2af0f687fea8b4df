// What one tenant of a server may do, by its policy (proto/policy.proto). A value; const methods
// from any thread.

#ifndef INVOKER_SRC_SECURITY_TENANT_H_
#define INVOKER_SRC_SECURITY_TENANT_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/sha256.h"

namespace invoker::security {

struct Tenant {
  static constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();

  std::string name;

  // Who it is.
  std::vector<Sha256Digest> tokens;
  std::vector<std::string> certificate_subjects;
  std::vector<std::string> certificate_names;
  bool anyone = false;

  // All its leases at a time, those that wait in line included.
  uint32_t max_leases = kNoLimit;
  uint32_t max_cores = kNoLimit;
  uint32_t max_sessions = kNoLimit;
  uint64_t max_memory_bytes = std::numeric_limits<uint64_t>::max();
  // For each of them.
  absl::Duration max_ttl = absl::InfiniteDuration();

  bool may_upload_libraries = false;
  bool may_upload_python = false;
  std::vector<std::string> functions;  // globs
  bool sees_others_usage = false;
  bool operates = false;  // ends others' leases, drains the server
  bool contributes_usage = false;

  // Whether it may call a function of the server's that has this name.
  bool MayCall(absl::string_view function) const;
};

// `*` in the glob stands for any characters, also none, `?` for one, everything else for itself.
bool MatchesGlob(absl::string_view glob, absl::string_view text);

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_TENANT_H_
