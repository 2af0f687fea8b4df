// One request of a client and its answer, for any of the server's services.
//
// Only source files of clients include this header: gRPC's own are slow to compile.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_UNARY_CALL_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_UNARY_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "src/bootstrap/client/client_channel.h"
#include "src/bootstrap/client/failure.h"

namespace invoker::bootstrap {

// One unary call: its context with the deadline, and its result in words.
class UnaryCall {
 public:
  UnaryCall(ClientChannel& channel, absl::string_view operation, absl::Duration timeout)
      : channel_(channel), operation_(operation), timeout_(timeout) {
    context_.set_deadline(
        absl::ToChronoTime(absl::Now() + timeout - ReserveForExplanation(timeout)));
    channel.Authorize(&context_);
  }

  // `Service` as in v1::Bootstrap, `method` one of its Stub.
  template <typename Service, typename Method, typename Request, typename Reply>
  absl::Status Run(Method method, const Request& request, Reply* reply) {
    const auto stub = Service::NewStub(channel_.channel());
    channel_.Begin(&context_);
    const grpc::Status status = (stub.get()->*method)(&context_, request, reply);
    channel_.End(&context_);
    return channel_.Explain(operation_, context_, status, timeout_);
  }

  // A reply that makes no sense is the server's mistake, whatever code the conversion gave it.
  absl::Status BadReply(const absl::Status& status) const {
    const std::string message = absl::StrCat("invoker_server at ", channel_.name(),
                                             " sent a bad answer: ", status.message());
    return absl::IsInvalidArgument(status) ? absl::InternalError(message)
                                           : absl::Status(status.code(), message);
  }

 private:
  ClientChannel& channel_;
  const absl::string_view operation_;
  const absl::Duration timeout_;
  grpc::ClientContext context_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_UNARY_CALL_H_
