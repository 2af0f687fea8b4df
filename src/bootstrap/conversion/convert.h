// Between the messages on the wire and the plain structs.
//
// Whatever comes from the wire is checked here: enums, 16-bit fields, and the lengths of addresses.
// INVALID_ARGUMENT names the field. Only source files of the bootstrap, and of the isolation,
// include this header. Pure: any thread.

#ifndef INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_H_
#define INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "invoker/notification.h"
#include "proto/bootstrap.pb.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker::bootstrap {

v1::GetWorkerInfoReply ToProto(const WorkerInfo& info);
// FAILED_PRECONDITION if the worker speaks another protocol version.
absl::StatusOr<WorkerInfo> FromProto(const v1::GetWorkerInfoReply& message);

v1::OpenSessionRequest ToProto(uint64_t lease, const OpenSessionRequest& request);
// Reads only the version of another protocol version's request.
absl::StatusOr<OpenSessionRequest> FromProto(const v1::OpenSessionRequest& message);

v1::OpenSessionReply ToProto(const OpenSessionReply& reply);
absl::StatusOr<OpenSessionReply> FromProto(const v1::OpenSessionReply& message);

google::protobuf::RepeatedPtrField<v1::Function> ToProto(
    const std::vector<FunctionInfo>& functions);
std::vector<FunctionInfo> FromProto(
    const google::protobuf::RepeatedPtrField<v1::Function>& messages);

v1::FabricIdentity ToProto(const FabricIdentity& fabric);
FabricIdentity FromProto(const v1::FabricIdentity& message);

v1::DataAuth ToProto(DataAuth auth);
absl::StatusOr<DataAuth> FromProto(v1::DataAuth auth);

v1::Notification ToProto(Notification notification);
// kAuto is a request, not a method: a caller that needs a method passes allow_auto = false.
absl::StatusOr<Notification> FromProto(v1::Notification notification, bool allow_auto);

v1::RequestState ToProto(RequestState state);
absl::StatusOr<RequestState> FromProto(v1::RequestState state);

// At most `limit` bytes of `text`, each that is not printable ASCII as a question mark: what came
// from elsewhere goes into a log on one line.
std::string PrintableText(absl::string_view text, size_t limit);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_H_
