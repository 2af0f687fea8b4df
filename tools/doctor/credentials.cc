#include "tools/doctor/credentials.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/security/certificates.h"
#include "src/security/client_credentials.h"
#include "src/security/token.h"
#include "tools/configuration.h"

namespace invoker::tools {
namespace {

constexpr absl::Duration kSoon = absl::Hours(24 * 30);

Finding Problem(const std::string& subject, const absl::Status& status) {
  return {FindingKind::kProblem, subject, std::string(status.message())};
}

std::string Date(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

void AddDates(const std::string& path, absl::Time now, std::vector<Finding>* findings) {
  if (path.empty()) return;
  const absl::StatusOr<std::vector<security::CertificateDates>> all = security::ReadDates(path);
  if (!all.ok()) {
    findings->push_back(Problem("certificate", all.status()));
    return;
  }
  for (const security::CertificateDates& each : *all) {
    Finding finding = {FindingKind::kOk, "certificate",
                       absl::StrCat(path, ": ", each.subject, ", valid from ",
                                    Date(each.not_before), " to ", Date(each.not_after))};
    if (now > each.not_after || now < each.not_before) {
      finding.kind = FindingKind::kProblem;
      finding.help = "get another one, or set the clock: the other side refuses this one";
    } else if (each.not_after - now < kSoon) {
      finding.kind = FindingKind::kNote;
      finding.help = "get another one in time; servers read the file again by themselves";
    }
    findings->push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> ExamineCredentials(const ClientCredentials& given, absl::Time now) {
  std::vector<Finding> findings;
  const absl::StatusOr<ClientCredentials> all = security::Complete(given);
  if (!all.ok()) return {Problem("credentials", all.status())};
  if (all->tls()) {
    const absl::Status usable =
        security::LoadCertificates({all->tls_cert, all->tls_key, all->tls_ca}).status();
    if (!usable.ok()) findings.push_back(Problem("certificate", usable));
    AddDates(all->tls_ca, now, &findings);
    AddDates(all->tls_cert, now, &findings);
  } else {
    findings.push_back({FindingKind::kOk, "credentials",
                        all->plaintext
                            ? "connections are not encrypted (--plaintext)"
                            : "no certificates: only servers of this machine are reached"});
  }
  if (!all->token_file.empty()) {
    const absl::StatusOr<std::vector<std::string>> tokens =
        security::ReadTokenFile(all->token_file);
    findings.push_back(tokens.ok() ? Finding{FindingKind::kOk, "token", all->token_file}
                                   : Problem("token", tokens.status()));
  }
  return findings;
}

std::vector<Finding> ExamineServersFile(const std::string& path, absl::Time now) {
  std::vector<Finding> findings;
  const absl::StatusOr<std::vector<ConfigurationEntry>> entries = ReadConfiguration(path);
  if (absl::IsNotFound(entries.status())) return findings;
  if (!entries.ok()) return {Problem("server.conf", entries.status())};
  for (const ConfigurationEntry& entry : *entries) {
    if (entry.name == "tls-cert" || entry.name == "tls-client-ca") {
      AddDates(entry.value, now, &findings);
    }
  }
  return findings;
}

}  // namespace invoker::tools
