// The self-test of a fabric, on every fabric of this machine, and on one that lies.

#include "src/transport/self_test.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <optional>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/transport/reactor.h"
#include "tests/integration/lost_immediates.h"

namespace invoker::transport {
namespace {

using testing::HasSubstr;

// What no healthy run needs, on a loaded machine and under a sanitizer too.
constexpr absl::Duration kLimit = absl::Seconds(60);
// With immediates that never come, a quarter of this is waited for in vain; what arrives at all may
// take all of it.
constexpr absl::Duration kShortLimit = absl::Seconds(12);

struct Fabric {
  const char* name;
  const char* provider;
};

FabricRequest RequestFor(const std::string& provider) {
  FabricRequest request;
  request.provider = provider;
  if (FindRow(provider).address_is_ip) request.address = "127.0.0.1";
  return request;
}

int CountEntries(const char* directory) {
  int entries = 0;
  DIR* const open = opendir(directory);
  if (open == nullptr) return -1;
  while (readdir(open) != nullptr) ++entries;
  closedir(open);
  return entries;
}

// Files of this process in shared memory: providers put its number into the name.
int SharedMemoryFiles() {
  int files = 0;
  DIR* const open = opendir("/dev/shm");
  if (open == nullptr) return -1;
  while (const dirent* entry = readdir(open)) {
    // The number itself, and not a part of another.
    static const std::regex ours(absl::StrCat("(^|.*[^0-9])", getpid(), "($|[^0-9].*)"));
    if (std::regex_match(entry->d_name, ours)) ++files;
  }
  closedir(open);
  return files;
}

class SelfTestOf : public testing::TestWithParam<Fabric> {};

TEST_P(SelfTestOf, EverythingCrossesAndIsNoted) {
  const SelfTestResult result = RunSelfTest(RequestFor(GetParam().provider), kLimit);
  ASSERT_EQ(result.status, absl::OkStatus());
  EXPECT_TRUE(result.immediate_crossed) << result.immediate_failure;
  EXPECT_EQ(result.immediate_failure, "");
  EXPECT_TRUE(result.send_after_write_crossed) << result.send_after_write_failure;
  EXPECT_EQ(result.send_after_write_failure, "");
  EXPECT_EQ(result.notification, Notification::kWriteImm);
  EXPECT_TRUE(result.entry_seen);
  EXPECT_EQ(result.immediate_bytes, 8u);
  EXPECT_GT(result.sends_tried, 0u);
  EXPECT_EQ(result.eager_bytes, FindRow(GetParam().provider).eager_bytes);
  EXPECT_THAT(result.atomics, testing::AnyOf(AtomicsSeen::kNative, AtomicsSeen::kMessage));
  EXPECT_TRUE(result.wait_woke);
  EXPECT_GT(result.round_trips, 0u);
  EXPECT_GT(result.round_trip_us, 0);
  EXPECT_GT(result.wake_us, 0);
  EXPECT_GT(result.elapsed, absl::ZeroDuration());
}

TEST_P(SelfTestOf, NoSendOvertakesItsWriteWhereTheProfileReliesOnThat) {
  if (FindRow(GetParam().provider).send_order != SendOrder::kPipelined) {
    GTEST_SKIP() << "the profile does not rely on it here";
  }
  EXPECT_EQ(RunSelfTest(RequestFor(GetParam().provider), kLimit).sends_overtook, 0u);
}

TEST_P(SelfTestOf, NothingIsLeftBehind) {
  // The first use of a provider may keep some for the process.
  ASSERT_EQ(RunSelfTest(RequestFor(GetParam().provider), kLimit).status, absl::OkStatus());
  const int threads = CountEntries("/proc/self/task");
  const int descriptors = CountEntries("/proc/self/fd");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RunSelfTest(RequestFor(GetParam().provider), kLimit).status, absl::OkStatus());
  }
  // A thread is listed for a moment after it has been joined, perhaps above, too.
  const absl::Time limit = absl::Now() + kLimit;
  while (CountEntries("/proc/self/task") > threads && absl::Now() < limit) sched_yield();
  EXPECT_LE(CountEntries("/proc/self/task"), threads);
  EXPECT_EQ(CountEntries("/proc/self/fd"), descriptors);
  EXPECT_EQ(SharedMemoryFiles(), 0);
}

TEST_P(SelfTestOf, LostImmediatesAreFoundOut) {
  std::optional<LoseImmediates> lose(std::in_place, LoseImmediates::How::kSilently);
  const SelfTestResult result = RunSelfTest(RequestFor(GetParam().provider), kShortLimit);
  lose.reset();
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_FALSE(result.immediate_crossed);
  EXPECT_THAT(result.immediate_failure, HasSubstr("did not arrive"));
  EXPECT_TRUE(result.send_after_write_crossed) << result.send_after_write_failure;
  EXPECT_EQ(result.notification, Notification::kSendAfterWrite);
  EXPECT_FALSE(result.entry_seen);
  EXPECT_GT(result.round_trips, 0u);
}

TEST_P(SelfTestOf, RefusedImmediatesAreFoundOut) {
  std::optional<LoseImmediates> lose(std::in_place, LoseImmediates::How::kRefused);
  const SelfTestResult result = RunSelfTest(RequestFor(GetParam().provider), kLimit);
  lose.reset();
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_FALSE(result.immediate_crossed);
  EXPECT_THAT(result.immediate_failure, HasSubstr("not supported"));
  EXPECT_EQ(result.notification, Notification::kSendAfterWrite);
}

TEST_P(SelfTestOf, ALimitThatIsOverAtOnceEndsTheTest) {
  const SelfTestResult result = RunSelfTest(RequestFor(GetParam().provider), absl::ZeroDuration());
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status)) << result.status;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr(GetParam().provider));
}

INSTANTIATE_TEST_SUITE_P(Every, SelfTestOf,
                         testing::Values(Fabric{"TcpRxm", "tcp;ofi_rxm"}, Fabric{"Shm", "shm"},
                                         Fabric{"Sockets", "sockets"},
                                         Fabric{"UdpRxd", "udp;ofi_rxd"}, Fabric{"Net", "net"}),
                         [](const testing::TestParamInfo<Fabric>& info) {
                           return std::string(info.param.name);
                         });

TEST(SelfTest, AProviderThatIsNotThereIsNamed) {
  FabricRequest request;
  request.provider = "carrier-pigeon";
  const SelfTestResult result = RunSelfTest(request, kLimit);
  EXPECT_TRUE(absl::IsNotFound(result.status)) << result.status;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("carrier-pigeon"));
  EXPECT_FALSE(result.immediate_crossed);
  EXPECT_EQ(result.round_trips, 0u);
}

}  // namespace
}  // namespace invoker::transport
