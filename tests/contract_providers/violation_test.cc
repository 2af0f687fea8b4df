// A deliberate violation in our own code: the send behind a write without waiting for it, on
// fabrics that do not keep that order. The emulation must catch it; the notifications that the
// profile rows may choose must come out clean.

#include <cstdlib>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "src/transport/operations/notifier.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

constexpr uint64_t kBytes = 64;
constexpr uint32_t kRounds = 1000;

struct Violation {
  const char* name;
  const char* provider;
  const char* generation;
};

class Violations : public testing::TestWithParam<Violation> {
 protected:
  Violations() {
    setenv("CONTRACT_EFA_GENERATION", GetParam().generation, 1);
    a_ = Node::Open(GetParam().provider, 4096);
    b_ = Node::Open(GetParam().provider, 4096);
  }
  ~Violations() override { unsetenv("CONTRACT_EFA_GENERATION"); }

  // How many tokens came before their bytes, of kRounds.
  uint32_t TokensBeforeTheirBytes(Notification notification, SendOrder order) {
    const Way way = {GetParam().name, GetParam().provider, notification, order};
    const Peer* peer = nullptr;
    const RemoteWindow window = a_->WindowTo(*b_, b_->window, &peer);
    // The target has to know the initiator on some fabrics.
    const Peer* back = nullptr;
    b_->WindowTo(*a_, a_->window, &back);
    uint32_t early = 0;
    b_->on_token = [&](uint32_t) {
      if (memcmp(a_->source.data(), b_->window.data(), kBytes) != 0) ++early;
    };
    for (uint32_t i = 1; i <= kRounds; ++i) {
      memset(a_->source.data(), static_cast<int>(i), kBytes);
      EXPECT_TRUE(a_->Write(way, window, 0, kBytes, i));
      // The next round starts when nothing of this one is left anywhere.
      const bool done = PollUntil({a_.get(), b_.get()}, [&] {
        return b_->tokens.size() == i && a_->outstanding() == 0 &&
               memcmp(a_->source.data(), b_->window.data(), kBytes) == 0;
      });
      EXPECT_TRUE(done) << "round " << i;
      if (!done) break;
    }
    b_->on_token = nullptr;
    a_->reactor().peers().Release(peer);
    b_->reactor().peers().Release(back);
    return early;
  }

  std::unique_ptr<Node> a_;
  std::unique_ptr<Node> b_;
};

TEST_P(Violations, PipelinedSendIsCaught) {
  ASSERT_NE(a_, nullptr);
  ASSERT_NE(b_, nullptr);
  EXPECT_GT(TokensBeforeTheirBytes(Notification::kSendAfterWrite, SendOrder::kPipelined), 0u);
}

TEST_P(Violations, SendAfterDeliveryIsNot) {
  ASSERT_NE(a_, nullptr);
  ASSERT_NE(b_, nullptr);
  EXPECT_EQ(TokensBeforeTheirBytes(Notification::kSendAfterWrite, SendOrder::kAfterDelivery), 0u);
}

TEST_P(Violations, WriteWithImmediateIsNot) {
  ASSERT_NE(a_, nullptr);
  ASSERT_NE(b_, nullptr);
  // Without the event gni drops immediates in silence.
  if (GetParam().provider == std::string("gni")) {
    ASSERT_NE(a_->reactor().info().caps & FI_RMA_EVENT, 0u);
    ASSERT_NE(b_->reactor().info().caps & FI_RMA_EVENT, 0u);
  }
  ASSERT_EQ(a_->reactor().profile().notification, Notification::kWriteImm);
  EXPECT_EQ(TokensBeforeTheirBytes(Notification::kWriteImm, SendOrder::kPipelined), 0u);
}

INSTANTIATE_TEST_SUITE_P(Emulated, Violations,
                         testing::Values(Violation{"EfaFirst", "efa", "1"},
                                         Violation{"EfaSecond", "efa", "2"},
                                         Violation{"Gni", "gni", "1"}),
                         [](const testing::TestParamInfo<Violation>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace invoker::transport
