// `invoker call` with several servers: what --retry tries again, and what is not tried again
// without it.

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

using testing::HasSubstr;

class InvokerRetryTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerProcessOptions options;
    options.provider = "tcp;ofi_rxm";
    doomed_ = StartServer(options);
    other_ = StartServer(options);
    ASSERT_NE(doomed_, nullptr);
    ASSERT_NE(other_, nullptr);
  }

  // A call that is held, on the server that is to die.
  std::unique_ptr<ChildProcess> StartCall(const std::vector<std::string>& more) {
    ChildProcess::Options options;
    options.command = {"tools/invoker", "call",
                       absl::StrCat("--server=", doomed_->address(), ",", other_->address()),
                       "test.rendezvous"};
    options.input = rendezvous_.path();
    options.command.insert(options.command.end(), more.begin(), more.end());
    auto call = ChildProcess::Start(options);
    EXPECT_TRUE(call.ok()) << call.status();
    if (!call.ok()) return nullptr;
    EXPECT_TRUE(rendezvous_.WaitUntilRunning()) << (*call)->Errors();
    return *std::move(call);
  }

  Rendezvous rendezvous_;
  ServerProcess* doomed_ = nullptr;
  ServerProcess* other_ = nullptr;
};

TEST_F(InvokerRetryTest, ACallWhoseServerIsLostRunsOnAnotherOne) {
  const std::unique_ptr<ChildProcess> call = StartCall({"--retry=1"});
  ASSERT_NE(call, nullptr);
  doomed_->Kill();
  EXPECT_TRUE(rendezvous_.WaitUntilRunning());
  rendezvous_.Release();
  EXPECT_EQ(call->Wait(), 0) << call->Errors();
  EXPECT_EQ(call->Output(), "held");
}

TEST_F(InvokerRetryTest, WithoutRetryItsEndSaysThatItMayHaveRun) {
  const std::unique_ptr<ChildProcess> call = StartCall({});
  ASSERT_NE(call, nullptr);
  doomed_->Kill();
  EXPECT_NE(call->Wait(), 0);
  EXPECT_THAT(call->Errors(), HasSubstr("maybe_executed"));
  EXPECT_FALSE(rendezvous_.HasBegun());
}

}  // namespace
}  // namespace invoker
