// Conversions like those of convert.h, for the service Status.

#ifndef INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_STATUS_H_
#define INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_STATUS_H_

#include "proto/bootstrap.pb.h"
#include "src/bootstrap/messages/worker_status.h"

namespace invoker::bootstrap {

v1::GetStatusReply ToProto(const ServerStatus& status);
// Any message can be converted: counts of times beyond the last bucket are in the last one.
ServerStatus FromProto(const v1::GetStatusReply& message);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_STATUS_H_
