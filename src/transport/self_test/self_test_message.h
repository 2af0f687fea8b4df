// A self-test's request and result as messages between processes. Pure: any thread.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_MESSAGE_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_MESSAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/self_test.pb.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/self_test/self_test.h"

namespace invoker::transport {

// Where the helper writes its result.
inline constexpr int kSelfTestFd = 3;

v1::SelfTestRequest ToProto(const FabricRequest& request);
FabricRequest FromProto(const v1::SelfTestRequest& message);

v1::SelfTestResult ToProto(const SelfTestResult& result);
// INVALID_ARGUMENT for a message that no self-test makes.
absl::StatusOr<SelfTestResult> FromProto(const v1::SelfTestResult& message);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_MESSAGE_H_
