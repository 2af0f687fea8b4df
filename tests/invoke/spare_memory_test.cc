#include "src/invoke/executor/bulk/spare_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr int64_t kNow = 1'000'000'000'000;

std::atomic<uint32_t> keepers{0};

transport::HostBuffer Take(SpareMemory* spare, size_t bytes) {
  absl::StatusOr<transport::HostBuffer> buffer = spare->Take(bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->size(), bytes);
  return *std::move(buffer);
}

TEST(SpareMemory, TheNextCallGetsWhatTheLastOneHad) {
  SpareMemory spare(&keepers);
  transport::HostBuffer first = Take(&spare, kBytes);
  const std::byte* const data = first.data();
  memset(first.data(), 1, kBytes);
  spare.Give(std::move(first), kNow);
  transport::HostBuffer again = Take(&spare, kBytes);
  EXPECT_EQ(again.data(), data);
  EXPECT_NE(Take(&spare, kBytes).data(), data) << "it is in use";
  // It is a call's to write to, whether or not the kernel has taken it.
  memset(again.data(), 2, kBytes);
  EXPECT_EQ(again.data()[kBytes - 1], std::byte{2});
}

TEST(SpareMemory, WhatFitsIsLargeEnoughAndNotMuchLarger) {
  SpareMemory spare(&keepers);
  transport::HostBuffer first = Take(&spare, kBytes);
  const std::byte* const data = first.data();
  spare.Give(std::move(first), kNow);
  EXPECT_NE(Take(&spare, kBytes + 1).data(), data);
  EXPECT_NE(Take(&spare, kBytes / 2 - 1).data(), data);
  transport::HostBuffer half = Take(&spare, kBytes / 2);
  EXPECT_EQ(half.data(), data);
  spare.Give(std::move(half), kNow);
  EXPECT_EQ(Take(&spare, kBytes).data(), data) << "all of it is there again";
}

TEST(SpareMemory, KeepsWhatWasGivenLast) {
  SpareMemory spare(&keepers);
  std::vector<transport::HostBuffer> buffers;
  for (int i = 0; i < 6; ++i) buffers.push_back(Take(&spare, kBytes));
  const std::byte* const oldest = buffers.front().data();
  const std::byte* const newest = buffers.back().data();
  for (transport::HostBuffer& buffer : buffers) spare.Give(std::move(buffer), kNow);
  buffers.clear();
  buffers.push_back(Take(&spare, kBytes));
  EXPECT_EQ(buffers.front().data(), newest);
  for (int i = 0; i < 3; ++i) {
    buffers.push_back(Take(&spare, kBytes));
    EXPECT_NE(buffers.back().data(), oldest);
  }
}

TEST(SpareMemory, GivesEverythingBackAWhileAfterTheLastCall) {
  {
    SpareMemory spare(&keepers);
    spare.ClearIfIdle(kNow);
    EXPECT_EQ(keepers, 0u);
    void* memory[2];
    for (void*& one : memory) {
      transport::HostBuffer buffer = Take(&spare, kBytes);
      one = buffer.data();
      spare.Give(std::move(buffer), kNow);
    }
    EXPECT_EQ(keepers, 1u);
    spare.ClearIfIdle(kNow + 999'000'000);
    EXPECT_EQ(keepers, 1u);
    EXPECT_EQ(msync(memory[0], kBytes, MS_ASYNC), 0);
    spare.ClearIfIdle(kNow + 1'001'000'000);
    EXPECT_EQ(keepers, 0u);
    EXPECT_NE(msync(memory[0], kBytes, MS_ASYNC), 0);
    spare.Give(Take(&spare, kBytes), kNow);
    EXPECT_EQ(keepers, 1u);
  }
  EXPECT_EQ(keepers, 0u) << "its session has ended";
}

// In a process of its own. 0: as it should be.
int GiveUnderALimitOnAddresses() {
  SpareMemory spare(&keepers);
  transport::HostBuffer buffer = Take(&spare, kBytes);
  void* const data = buffer.data();
  const rlimit limit = {rlim_t{1} << 45, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
  spare.Give(std::move(buffer), kNow);
  // Whether the pages are mapped.
  return msync(data, kBytes, MS_ASYNC) == 0 || errno != ENOMEM ? 2 : 0;
}

// The function that runs next could not have the addresses.
TEST(SpareMemory, KeepsNothingUnderALimitOnAddresses) {
  EXPECT_EXIT(_exit(GiveUnderALimitOnAddresses()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace invoker
