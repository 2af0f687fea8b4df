// A benchmark stops its server while others have their turn, for as long as that takes.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/programs/invoker_contender.h"
#include "gtest/gtest.h"

namespace invoker::bench {
namespace {

// After which a client of others gives its server up.
const absl::Duration kLongerThanOthersWait = ClientOptions().peer_timeout + absl::Milliseconds(200);

class StoppedServerTest : public testing::TestWithParam<const char*> {};

TEST_P(StoppedServerTest, ItsSessionGoesOn) {
  InvokerContender::Options options;
  options.provider = GetParam();
  options.address = "127.0.0.1";
  options.core = -1;
  auto contender = InvokerContender::Start(options);
  ASSERT_TRUE(contender.ok()) << contender.status();
  // It is stopped.
  absl::SleepFor(kLongerThanOthersWait);
  ASSERT_EQ((*contender)->Begin(), absl::OkStatus());
  std::vector<int64_t> times(10);
  EXPECT_EQ((*contender)->Burst(64, absl::MakeSpan(times)), absl::OkStatus());
  (*contender)->End();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, StoppedServerTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const auto& info) { return info.index == 0 ? "tcp" : "shm"; });

}  // namespace
}  // namespace invoker::bench
