#include "src/security/policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/security/token.h"

namespace invoker::security {
namespace {

bool Contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool HasCertificate(const Tenant& tenant, const Shown& shown) {
  if (!shown.certificate_subject.empty() &&
      Contains(tenant.certificate_subjects, shown.certificate_subject)) {
    return true;
  }
  return std::any_of(
      shown.certificate_names.begin(), shown.certificate_names.end(),
      [&tenant](const auto& name) { return Contains(tenant.certificate_names, name); });
}

std::string Limit(uint64_t most, uint64_t none, absl::string_view unit) {
  if (most == none) return "as many as the server has";
  return absl::StrCat("at most ", most, unit);
}

std::string WhoIs(const Tenant& tenant) {
  std::vector<std::string> ways;
  if (!tenant.tokens.empty()) {
    ways.push_back(tenant.tokens.size() == 1
                       ? "has its token"
                       : absl::StrCat("has one of its ", tenant.tokens.size(), " tokens"));
  }
  for (const std::string& subject : tenant.certificate_subjects) {
    ways.push_back(absl::StrCat("has a certificate of \"", subject, "\""));
  }
  for (const std::string& name : tenant.certificate_names) {
    ways.push_back(absl::StrCat("has a certificate for \"", name, "\""));
  }
  if (tenant.anyone) ways.push_back("is no other tenant, without showing anything");
  return absl::StrJoin(ways, ", or ");
}

std::string UploadsOf(const Tenant& tenant) {
  if (tenant.may_upload_libraries && tenant.may_upload_python) {
    return "shared libraries and Python functions, where the server takes them";
  }
  if (tenant.may_upload_libraries) return "shared libraries, where the server takes them";
  if (tenant.may_upload_python) return "Python functions, where the server takes them";
  return "nothing";
}

}  // namespace

std::shared_ptr<const Tenant> Policy::Identify(const Shown& shown) const {
  std::shared_ptr<const Tenant> found;
  std::shared_ptr<const Tenant> anyone;
  for (const std::shared_ptr<const Tenant>& tenant : tenants_) {
    if (tenant->anyone) anyone = tenant;
    if (shown.token != nullptr) {
      // All of them, whichever it is.
      for (const Sha256Digest& token : tenant->tokens) {
        if (SameDigest(token, *shown.token)) found = tenant;
      }
    } else if (HasCertificate(*tenant, shown)) {
      found = tenant;
    }
  }
  if (found != nullptr) return found;
  // A token that is nobody's has been taken back, or is mistyped: its sender is to know.
  return shown.token == nullptr ? anyone : nullptr;
}

std::string Policy::Explain() const {
  std::string text;
  for (const std::shared_ptr<const Tenant>& tenant : tenants_) {
    const bool endless = tenant->max_ttl == absl::InfiniteDuration();
    absl::StrAppend(
        &text, "tenant \"", tenant->name, "\"\n  each client   ", WhoIs(*tenant),
        "\n  leases        ", Limit(tenant->max_leases, Tenant::kNoLimit, " at a time"),
        "\n  sessions      ", Limit(tenant->max_sessions, Tenant::kNoLimit, " at a time"),
        "\n  cores         ", Limit(tenant->max_cores, Tenant::kNoLimit, " at a time"),
        "\n  memory        ",
        Limit(tenant->max_memory_bytes, std::numeric_limits<uint64_t>::max(), " bytes at a time"),
        "\n  a lease lives ",
        endless ? "as long as the server allows"
                : absl::StrCat(absl::FormatDuration(tenant->max_ttl), " at most"),
        "\n  calls         ",
        tenant->functions.empty()
            ? "no function of the server's"
            : absl::StrCat("functions named ", absl::StrJoin(tenant->functions, ", or ")),
        "\n  uploads       ", UploadsOf(*tenant), "\n  sees usage of ",
        tenant->sees_others_usage ? "everybody" : "itself only", "\n  ends leases   ",
        tenant->operates ? "of everybody, and drains the server" : "of its own",
        "\n  adds usage    ", tenant->contributes_usage ? "to this server's counters" : "nowhere",
        "\n");
  }
  if (tenants_.empty()) text = "no tenants: nobody may do anything\n";
  return text;
}

}  // namespace invoker::security
