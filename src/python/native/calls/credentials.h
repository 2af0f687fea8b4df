// Credentials as the package's Python half hands them over.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_CREDENTIALS_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_CREDENTIALS_H_

#include <pybind11/pybind11.h>

#include <string>

#include "src/security/client_credentials.h"

namespace invoker::python {

// From invoker._calls.connecting.Credentials: tls_ca, tls_cert, tls_key, tls_server_name,
// token_file, plaintext. With the GIL.
inline security::ClientCredentials CredentialsOf(const pybind11::tuple& fields) {
  const auto text = [&fields](size_t field) { return fields[field].cast<std::string>(); };
  return {text(0), text(1), text(2), text(3), text(4), fields[5].cast<bool>()};
}

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_CREDENTIALS_H_
