#include "src/security/client_credentials.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace invoker::security {
namespace {

absl::StatusOr<bool> PlaintextInEnvironment() {
  const char* value = getenv("INVOKER_PLAINTEXT");
  const std::string text = value == nullptr ? "" : value;
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  return absl::InvalidArgumentError(
      absl::StrCat("INVOKER_PLAINTEXT is \"", text, "\"; it is 1 or 0"));
}

}  // namespace

absl::StatusOr<ClientCredentials> Complete(const ClientCredentials& given) {
  ClientCredentials all = given;
  const bool tls_given = given.tls() || !given.tls_key.empty() || !given.tls_server_name.empty();
  if (tls_given && given.plaintext) {
    return absl::InvalidArgumentError(
        "a connection is either encrypted (--tls-ca, tls_ca=) or plaintext (--plaintext, "
        "plaintext=): give one of them");
  }
  FromEnvironment("INVOKER_TOKEN_FILE", &all.token_file);
  if (!given.plaintext) {
    FromEnvironment("INVOKER_TLS_CA", &all.tls_ca);
    // A certificate and its key are one thing.
    if (all.tls_cert.empty() && all.tls_key.empty()) {
      FromEnvironment("INVOKER_TLS_CERT", &all.tls_cert);
      FromEnvironment("INVOKER_TLS_KEY", &all.tls_key);
    }
    FromEnvironment("INVOKER_TLS_SERVER_NAME", &all.tls_server_name);
    if (!tls_given) {
      absl::StatusOr<bool> plaintext = PlaintextInEnvironment();
      if (!plaintext.ok()) return plaintext.status();
      if (*plaintext && all.tls()) {
        return absl::InvalidArgumentError(
            "INVOKER_PLAINTEXT=1 and INVOKER_TLS_CA or INVOKER_TLS_CERT contradict each other: "
            "take one of them out of the environment");
      }
      all.plaintext = *plaintext;
    }
  }
  if (all.tls_cert.empty() != all.tls_key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a certificate and its private key go together, and only ",
        all.tls_key.empty() ? "the certificate is given: add --tls-key, INVOKER_TLS_KEY or tls_key="
                            : "the key is given: add --tls-cert, INVOKER_TLS_CERT or tls_cert="));
  }
  if (!all.tls_cert.empty() && all.tls_ca.empty()) {
    return absl::InvalidArgumentError(
        "there is a certificate for the client, but nothing to know the server by: add --tls-ca, "
        "INVOKER_TLS_CA or tls_ca=, for example /etc/ssl/certs/ca-certificates.crt");
  }
  if (!all.tls_server_name.empty() && !all.tls()) {
    return absl::InvalidArgumentError(
        "the name of the server's certificate is given, but nothing to know the certificate by: "
        "add --tls-ca, INVOKER_TLS_CA or tls_ca=");
  }
  return all;
}

void FromEnvironment(const char* name, std::string* field) {
  const char* value = getenv(name);
  if (field->empty() && value != nullptr) *field = value;
}

}  // namespace invoker::security
