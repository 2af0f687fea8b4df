#include "src/transport/base/status.h"

#include <string>

#include "gtest/gtest.h"
#include "src/transport/base/libfabric.h"

namespace invoker::transport {
namespace {

TEST(ToStatus, ZeroIsOk) { EXPECT_TRUE(ToStatus("fi_enable", 0).ok()); }

TEST(ToStatus, SaysWhatWasDoneWhatWentWrongAndTheCode) {
  const absl::Status status = ToStatus("fi_av_insert", -FI_EINVAL);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "fi_av_insert: Invalid argument (-22)");
}

TEST(ToStatus, TakesPositiveCodesAsWell) {
  EXPECT_EQ(ToStatus("x", FI_EINVAL), ToStatus("x", -FI_EINVAL));
}

TEST(ToStatus, MapsCodesToWhatACallerCanActOn) {
  const struct {
    int error;
    absl::StatusCode code;
  } kCases[] = {
      {FI_EAGAIN, absl::StatusCode::kUnavailable},
      {FI_ECONNREFUSED, absl::StatusCode::kUnavailable},
      {FI_ECONNRESET, absl::StatusCode::kUnavailable},
      {FI_ENOTCONN, absl::StatusCode::kUnavailable},
      {FI_EHOSTUNREACH, absl::StatusCode::kUnavailable},
      {FI_ENODATA, absl::StatusCode::kNotFound},
      {FI_ENOMEM, absl::StatusCode::kResourceExhausted},
      {FI_EOVERRUN, absl::StatusCode::kResourceExhausted},
      {FI_EADDRINUSE, absl::StatusCode::kAlreadyExists},
      {FI_ENOSYS, absl::StatusCode::kUnimplemented},
      {FI_ETIMEDOUT, absl::StatusCode::kDeadlineExceeded},
      {FI_EACCES, absl::StatusCode::kPermissionDenied},
      {FI_ECANCELED, absl::StatusCode::kCancelled},
      {FI_EIO, absl::StatusCode::kInternal},
  };
  for (const auto& item : kCases) {
    const absl::Status status = ToStatus("x", -item.error);
    EXPECT_EQ(status.code(), item.code) << status;
  }
}

TEST(ToStatus, UnknownCodeIsStillAnErrorThatNamesTheCode) {
  const absl::Status status = ToStatus("fi_cq_read", -99999);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(status.message()).find("(-99999)"), std::string::npos) << status;
}

}  // namespace
}  // namespace invoker::transport
