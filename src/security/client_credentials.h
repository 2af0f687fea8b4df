// Completes a client's credentials from the environment.

#ifndef INVOKER_SRC_SECURITY_CLIENT_CREDENTIALS_H_
#define INVOKER_SRC_SECURITY_CLIENT_CREDENTIALS_H_

#include <string>

#include "absl/status/statusor.h"
#include "invoker/client_credentials.h"

namespace invoker::security {

// What is given, completed from the environment. What is given decides between TLS and plaintext:
// the environment's other one is left out then. INVALID_ARGUMENT for a certificate without a key,
// for both TLS and plaintext, and the like.
absl::StatusOr<ClientCredentials> Complete(const ClientCredentials& given);

// What the environment says, where nothing is given.
void FromEnvironment(const char* name, std::string* field);

}  // namespace invoker::security

#endif  // INVOKER_SRC_SECURITY_CLIENT_CREDENTIALS_H_
