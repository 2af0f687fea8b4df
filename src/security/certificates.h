// Certificates and private keys in PEM files, checked before they are used: that they can be read,
// are what they should be, and belong together. Any thread.

#ifndef INVOKER_SRC_SECURITY_CERTIFICATES_H_
#define INVOKER_SRC_SECURITY_CERTIFICATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/security/watched_file.h"

namespace invoker::security {

// Any may be empty; a certificate and its key go together.
struct CertificatePaths {
  std::string certificate;  // the chain, the own one first
  std::string key;          // the own one's, without a passphrase
  std::string authorities;  // who may have signed the other side's
};

// What is in them. `key_pem` is a secret.
struct Certificates {
  std::string certificate_pem;
  std::string key_pem;
  std::string authorities_pem;
  std::string note;  // what people should know, or empty: the certificate is not valid now
};

// FAILED_PRECONDITION or NOT_FOUND names the file and what is wrong with it, and never what is in
// it.
absl::StatusOr<Certificates> LoadCertificates(const CertificatePaths& paths);

// When a certificate is valid.
struct CertificateDates {
  std::string subject;  // "CN = worker.example"
  absl::Time not_before;
  absl::Time not_after;
};

// Those of all certificates in a file, in its order. Errors as LoadCertificates'.
absl::StatusOr<std::vector<CertificateDates>> ReadDates(const std::string& path);

// The stamps of all that are named, in their order.
std::vector<FileStamp> StampsOf(const CertificatePaths& paths);

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_CERTIFICATES_H_
