// The self-test of a fabric, on every fabric of this machine, and on one that lies.

#include "src/transport/self_test/self_test.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/transport/base/shared_files.h"
#include "src/transport/reactor/reactor.h"
#include "tests/integration/lost_immediates.h"
#include "tests/transport/immediates.h"
#include "tests/transport/in_libfabric.h"

namespace invoker::transport {
namespace {

using testing::HasSubstr;

// No healthy run needs this long, not even on a loaded machine or under a sanitizer.
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

// Files of this process in shared memory.
int SharedMemoryFiles() {
  int files = 0;
  DIR* const open = opendir("/dev/shm");
  if (open == nullptr) return -1;
  while (const dirent* entry = readdir(open)) {
    if (absl::StartsWith(entry->d_name, SharedFilePrefix(getpid()))) ++files;
  }
  closedir(open);
  return files;
}

constexpr char kNotTried[] = "with this libfabric, no immediates are tried on this fabric";

class SelfTestOf : public testing::TestWithParam<Fabric> {};

TEST_P(SelfTestOf, EverythingCrossesAndIsNoted) {
  const SelfTestResult result = RunSelfTest(RequestFor(GetParam().provider), kLimit);
  ASSERT_EQ(result.status, absl::OkStatus());
  const bool immediates = StrongestOn(GetParam().provider) == Notification::kWriteImm;
  EXPECT_EQ(result.immediate_crossed, immediates) << result.immediate_failure;
  EXPECT_EQ(result.immediate_failure.empty(), immediates) << result.immediate_failure;
  EXPECT_TRUE(result.send_after_write_crossed) << result.send_after_write_failure;
  EXPECT_EQ(result.send_after_write_failure, "");
  EXPECT_EQ(result.notification, StrongestOn(GetParam().provider));
  EXPECT_EQ(result.entry_seen, immediates);
  EXPECT_EQ(result.immediate_bytes, immediates ? 8u : 0u);
  EXPECT_GT(result.sends_tried, 0u);
  EXPECT_EQ(result.eager_bytes, FindRow(GetParam().provider).eager_bytes);
  EXPECT_THAT(result.atomics, testing::AnyOf(AtomicsSeen::kNative, AtomicsSeen::kMessage));
  // On a busy machine the sleep may be over before the message is there.
  bool woke = result.wait_woke;
  for (int i = 0; i < 10 && !woke; ++i) {
    woke = RunSelfTest(RequestFor(GetParam().provider), kLimit).wait_woke;
  }
  EXPECT_TRUE(woke);
  EXPECT_GT(result.round_trips, 0u);
  EXPECT_GT(result.round_trip_us, 0);
  EXPECT_GT(result.wake_us, 0);
  EXPECT_GT(result.elapsed, absl::ZeroDuration());
}

TEST_P(SelfTestOf, TriesPiecesWhereTheFabricTakesThem) {
  const SelfTestResult result = RunSelfTest(RequestFor(GetParam().provider), kLimit);
  ASSERT_EQ(result.status, absl::OkStatus());
  // On a busy machine the time may be up before the first length has been decided.
  EXPECT_TRUE(FindRow(GetParam().provider).may_send_pieces || result.methods.empty());
  uint64_t won = 0;
  for (const MethodTimes& times : result.methods) {
    EXPECT_GT(times.pieces_ns, 0);
    EXPECT_GT(times.write_ns, 0);
    if (times.pieces_ns < times.write_ns) won = times.bytes;
  }
  EXPECT_LE(result.pieces_up_to, won);
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
  if (StrongestOn(GetParam().provider) != Notification::kWriteImm) GTEST_SKIP() << kNotTried;
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
  if (StrongestOn(GetParam().provider) != Notification::kWriteImm) GTEST_SKIP() << kNotTried;
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

std::vector<Fabric> Fabrics() {
  std::vector<Fabric> fabrics = {
      {"TcpRxm", "tcp;ofi_rxm"}, {"Shm", "shm"}, {"Sockets", "sockets"}, {"UdpRxd", "udp;ofi_rxd"}};
  fabrics.push_back(InLibfabric("net") ? Fabric{"Net", "net"} : Fabric{"Tcp", "tcp"});
  return fabrics;
}

INSTANTIATE_TEST_SUITE_P(Every, SelfTestOf, testing::ValuesIn(Fabrics()),
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
