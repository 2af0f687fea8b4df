// A server's policy: its tenants, and how it tells them from each other. Immutable once parsed; any
// thread.

#ifndef INVOKER_SRC_SECURITY_POLICY_H_
#define INVOKER_SRC_SECURITY_POLICY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/security/tenant.h"

namespace invoker::security {

// What a caller has shown: the digest of its token, if it has sent one, and its certificate, if the
// server has verified one.
struct Shown {
  const Sha256Digest* token = nullptr;
  std::string certificate_subject;
  std::vector<std::string> certificate_names;
};

class Policy {
 public:
  // `file` is the name to put into errors: INVALID_ARGUMENT with "file:line:column: field: what is
  // wrong", for the first thing that is.
  static absl::StatusOr<Policy> Parse(absl::string_view text, const std::string& file);
  static absl::StatusOr<Policy> Read(const std::string& path);

  // Nullptr if it is nobody. By the token if there is one, else by the certificate: one that is
  // nobody's is not looked past. Takes as long whichever token it is.
  std::shared_ptr<const Tenant> Identify(const Shown& shown) const;

  const std::vector<std::shared_ptr<const Tenant>>& tenants() const { return tenants_; }

  // What it means, in words, for each tenant.
  std::string Explain() const;

 private:
  std::vector<std::shared_ptr<const Tenant>> tenants_;
};

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_POLICY_H_
