// What every service of the worker's server does with its answers.
//
// Only source files of services include this header: gRPC's own are slow to compile.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_SERVICE_SUPPORT_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_SERVICE_SUPPORT_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "src/bootstrap/messages/answer_mark.h"

namespace invoker::bootstrap {

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The first thing that every method does: tells its status from one that gRPC made up.
inline void Mark(grpc::ServerContextBase* context) {
  context->AddTrailingMetadata(kAnswerMarkKey, kAnswerMarkValue);
}

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_SERVICE_SUPPORT_H_
