// Turns a failed bootstrap request into a status that says who did not answer, why, and what to do.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_FAILURE_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/client/tls_probe.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::bootstrap {

// How a request ended, as gRPC told it.
struct FailedCall {
  absl::string_view operation;  // "open a session"
  absl::Status status;
  bool answered = false;   // an invoker server chose this status
  absl::Duration timeout;  // what the caller allowed
};

// The part of `timeout` to keep for ExplainFailure, so that both together stay within it.
absl::Duration ReserveForExplanation(absl::Duration timeout);

// The server's own refusals keep their code and words. For any other failure this may connect to
// the port once more, for up to `budget`, to tell a port where nobody listens from one where
// something else does, and what either side holds against the other's certificate. `tls` is nullptr
// for a call in plaintext.
absl::Status ExplainFailure(const HostPort& target, const FailedCall& call, const TlsSettings* tls,
                            absl::Duration budget);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_FAILURE_H_
