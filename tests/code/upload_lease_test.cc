// Libraries that a client brings to executors of its own, on a real server.

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "invoker/lease.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kRfaasFunctions[] = "tests/functions/rfaas_functions.so";

class UploadLeaseTest : public FabricTest {
 protected:
  ServerProcess* StartFor(const std::string& allow_upload) {
    ServerProcessOptions options;
    options.functions = {kCFunctions};
    options.more = {"--lease-cores=2", "--allow-upload=" + allow_upload};
    // Executors that are another user's do not meet the test over shared memory; over TCP they stay
    // what the server makes of them.
    const passwd* self = getpwuid(geteuid());
    if (GetParam().provider == "shm" && self != nullptr) {
      options.more.push_back(std::string("--executor-user=") + self->pw_name);
    }
    return StartServer(options);
  }

  std::unique_ptr<Lease> Take(const ServerProcess* server) {
    LeaseOptions options;
    options.client.notification = Notification::kAuto;
    options.client.hot_timeout = kClientHotTimeout;
    options.client.peer_timeout = absl::Seconds(5);
    auto lease = Lease::Acquire(server->address(), options);
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease.ok() ? *std::move(lease) : nullptr;
  }

  static absl::StatusOr<Response> Call(const Lease& lease, const std::string& function,
                                       const std::string& input) {
    absl::StatusOr<RemoteFunction> remote = lease.Function(function);
    if (!remote.ok()) return remote.status();
    return lease.executor(0).Invoke(*remote, input);
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, UploadLeaseTest, BothProviders(), FabricName);

TEST_P(UploadLeaseTest, RfaasFunctionsAreShippedAndCalledUnchanged) {
  ServerProcess* server = StartFor("library");
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Take(server);
  ASSERT_NE(lease, nullptr);
  EXPECT_TRUE(absl::IsNotFound(Call(*lease, "rfaas_reverse", "hello").status()));
  const absl::Status uploaded = lease->Upload(kRfaasFunctions);
  ASSERT_TRUE(uploaded.ok()) << uploaded;
  auto reversed = Call(*lease, "rfaas_reverse", "hello");
  ASSERT_TRUE(reversed.ok()) << reversed.status();
  EXPECT_EQ(reversed->text(), "olleh");
  // What the server has itself is still there, under its own numbers.
  auto own = Call(*lease, "c.reverse", "hello");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->text(), "olleh");
  // No other lease has it, until it asks; the bytes are there.
  std::unique_ptr<Lease> other = Take(server);
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(absl::IsNotFound(other->Function("rfaas_reverse").status()));
  EXPECT_TRUE(other->Upload(kRfaasFunctions).ok());
  EXPECT_TRUE(Call(*other, "rfaas_reverse", "x").ok());
}

TEST_P(UploadLeaseTest, AnOverrunEndsItsOwnLease) {
  ServerProcess* server = StartFor("all");
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Take(server);
  ASSERT_NE(lease, nullptr);
  std::unique_ptr<Lease> other = Take(server);
  ASSERT_NE(other, nullptr);
  ASSERT_TRUE(lease->Upload(kRfaasFunctions).ok());
  const absl::Status overrun = Call(*lease, "rfaas_overrun", "").status();
  EXPECT_TRUE(absl::IsAborted(overrun)) << overrun;
  EXPECT_THAT(std::string(overrun.message()), HasSubstr("rfaas_overrun"));
  EXPECT_TRUE(Call(*other, "c.reverse", "hello").ok());
}

TEST_P(UploadLeaseTest, MessagesCallAFileByItsOwnName) {
  ServerProcess* server = StartFor("library");
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Take(server);
  ASSERT_NE(lease, nullptr);
  const absl::Status no_library = lease->Upload("tests/functions/no_entry_point.so");
  EXPECT_THAT(std::string(no_library.message()), HasSubstr("\"no_entry_point.so\""));
  // Refused by the linker, whose own words have the path that it was given.
  const absl::Status unresolved = lease->Upload("tests/functions/unresolved_symbol.so");
  EXPECT_TRUE(absl::IsFailedPrecondition(unresolved)) << unresolved;
  EXPECT_THAT(std::string(unresolved.message()), HasSubstr("\"unresolved_symbol.so\""));
  ASSERT_TRUE(lease->Upload(kRfaasFunctions).ok());
  const absl::Status twice = lease->Upload("tests/functions/rfaas_functions_sysv_hash.so");
  EXPECT_TRUE(absl::IsAlreadyExists(twice)) << twice;
  EXPECT_THAT(std::string(twice.message()),
              HasSubstr("by rfaas_functions.so and by rfaas_functions_sysv_hash.so"));
  for (const absl::Status& status : {no_library, unresolved, twice}) {
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/proc/"))) << status;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("invoker-code"))) << status;
  }
}

TEST_P(UploadLeaseTest, WhatIsNotAllowedOrNotLoadableIsRefusedAndTheLeaseStays) {
  ServerProcess* server = StartFor("library");
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Take(server);
  ASSERT_NE(lease, nullptr);
  const absl::Status no_library = lease->Upload("tests/functions/no_entry_point.so");
  EXPECT_TRUE(absl::IsFailedPrecondition(no_library)) << no_library;
  EXPECT_THAT(std::string(no_library.message()), HasSubstr("exports no plain C function"));
  const absl::Status python = lease->UploadCode("a pickle", CodeKind::kPython, "square");
  EXPECT_TRUE(absl::IsPermissionDenied(python)) << python;
  const absl::Status missing = lease->Upload("no/such/library.so");
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_TRUE(Call(*lease, "c.reverse", "hello").ok());
}

}  // namespace
}  // namespace invoker
