#include "src/bootstrap/client/failure.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace invoker::bootstrap {

absl::Duration ReserveForExplanation(absl::Duration timeout) {
  return std::min(timeout / 8, absl::Seconds(2));
}

namespace {

// Why the two do not understand each other though they are connected, if that is TLS.
absl::Status ExplainTls(const HostPort& target, const TlsSettings* tls, absl::Duration budget) {
  if (tls != nullptr) return ProbeTls(target, *tls, budget);
  if (!SpeaksTls(target, budget)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      FormatHostPort(target),
      " speaks TLS, and this client does not: name the file of the authorities that sign its "
      "certificate (--tls-ca, INVOKER_TLS_CA, tls_ca=)"));
}

}  // namespace

absl::Status ExplainFailure(const HostPort& target, const FailedCall& call, const TlsSettings* tls,
                            absl::Duration budget) {
  const absl::Time until = absl::Now() + budget;
  const std::string where = FormatHostPort(target);
  const absl::StatusCode code = call.status.code();
  if (call.answered) {
    return absl::Status(code, absl::StrCat("invoker_server at ", where, " refused to ",
                                           call.operation, ": ", call.status.message()));
  }
  // Refused before any service saw it.
  if (code == absl::StatusCode::kUnauthenticated) {
    return absl::UnauthenticatedError(absl::StrCat("invoker_server at ", where, " refused to ",
                                                   call.operation, ": ", call.status.message()));
  }
  if (code == absl::StatusCode::kUnimplemented) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the gRPC server at ", where, " is not an invoker_server, or is too old a one: it cannot ",
        call.operation, " (", call.status.message(), "); check the address and the release"));
  }
  if (code != absl::StatusCode::kUnavailable && code != absl::StatusCode::kDeadlineExceeded) {
    return absl::Status(code, absl::StrCat("could not ", call.operation, " at ", where, ": ",
                                           call.status.message()));
  }
  const absl::Status connection = TryConnect(target, budget);
  if (!connection.ok()) {
    return absl::UnavailableError(
        absl::StrCat("no invoker_server answers at ", where, ": ", connection.message(),
                     "; check that it runs, that the address and port are those it printed when it "
                     "started, and that no firewall is in between"));
  }
  if (code == absl::StatusCode::kUnavailable) {
    absl::Status status = ExplainTls(target, tls, until - absl::Now());
    if (!status.ok()) return status;
  }
  if (code == absl::StatusCode::kDeadlineExceeded) {
    return absl::DeadlineExceededError(absl::StrCat(
        "could not ", call.operation, " within ", absl::FormatDuration(call.timeout), ": ", where,
        " accepts connections but does not answer; it is overloaded or stopped, or it is something "
        "else than an invoker_server and does not speak gRPC"));
  }
  return absl::UnavailableError(absl::StrCat(
      "could not ", call.operation, " at ", where,
      ": something accepts connections there, but either it does not speak gRPC and is no "
      "invoker_server, or the server went away just now, or it has as many connections as it may "
      "have (--max-connections); check the address (",
      call.status.message(), ")"));
}

}  // namespace invoker::bootstrap
