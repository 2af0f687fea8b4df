#include "src/transport/reactor/address_run.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/reactor/quarantine.h"

namespace invoker::transport {
namespace {

constexpr size_t kLarge = kLargePageBytes;

HostBuffer From(AddressRun* run, size_t size) {
  absl::StatusOr<HostBuffer> buffer = run->Allocate(size);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

HostBuffer Elsewhere(size_t size) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(size);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

bool Overlap(const HostBuffer& a, const HostBuffer& b) {
  return a.data() < b.data() + b.mapped() && b.data() < a.data() + a.mapped();
}

// Sessions of all sizes, some of which live longer than others, with memory beside that comes and
// goes.
TEST(AddressRun, WhatLeavesOutOfOrderHasNoGaps) {
  constexpr size_t kSizes[] = {size_t{64} << 10, size_t{1} << 20, kLarge, 3 * kLarge / 2,
                               2 * kLarge};
  constexpr size_t kLive = 8;
  AddressRun run;
  Quarantine quarantine(uint64_t{1} << 40);
  struct Session {
    HostBuffer window;
    HostBuffer staging;
  };
  std::vector<Session> live(kLive);
  std::minstd_rand random(1);
  for (int i = 0; i < 500; ++i) {
    const size_t size = kSizes[random() % std::size(kSizes)];
    Session& session = live[random() % kLive];
    quarantine.Take(std::move(session.window));
    session = {From(&run, size), Elsewhere(size)};
    for (const HostBuffer* each : {&session.window, &session.staging}) {
      memset(each->data(), 1, each->size());
    }
  }
  // Two runs, and each live session may part one.
  EXPECT_LE(quarantine.ranges(), kLive + 2);
  for (Session& session : live) quarantine.Take(std::move(session.window));
  EXPECT_EQ(quarantine.ranges(), 2u);
}

TEST(AddressRun, LargePiecesBeginWhereALargePageDoes) {
  AddressRun run;
  std::deque<HostBuffer> pieces;
  for (const size_t size : {kLarge, kLarge + 1, 3 * kLarge, size_t{1}, kLarge}) {
    pieces.push_back(From(&run, size));
    EXPECT_EQ(pieces.back().size(), size);
    EXPECT_GE(pieces.back().mapped(), size);
    if (size >= kLarge) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces.back().data()) % kLarge, 0u);
    }
  }
}

TEST(AddressRun, ThePlaceOfWhatCameToNothingIsUsedAgain) {
  AddressRun run;
  const HostBuffer first = From(&run, kLarge);
  std::byte* place = nullptr;
  {
    HostBuffer refused = From(&run, 2 * kLarge);
    place = refused.data();
    refused.data()[0] = std::byte{1};
  }
  const HostBuffer next = From(&run, 2 * kLarge);
  EXPECT_EQ(next.data(), place);
  EXPECT_EQ(next.data()[0], std::byte{0});
  EXPECT_EQ(next.data() + next.size(), first.data());
}

TEST(AddressRun, GoesOnElsewhereWhereSomebodyHasThePlace) {
  AddressRun run;
  HostBuffer first = From(&run, kLarge);
  std::byte* const below = first.data() - kLarge;
  void* const theirs = mmap(below, kLarge, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(theirs, below);
  memset(theirs, 7, kLarge);
  HostBuffer second = From(&run, kLarge);
  EXPECT_TRUE(second.data() >= below + kLarge || second.data() + kLarge <= below);
  EXPECT_FALSE(Overlap(first, second));
  memset(second.data(), 1, second.size());
  HostBuffer third = From(&run, kLarge);
  EXPECT_FALSE(Overlap(third, second));
  EXPECT_FALSE(Overlap(third, first));
  EXPECT_EQ(third.data() + kLarge, second.data());
  for (size_t i = 0; i < kLarge; ++i) ASSERT_EQ(static_cast<std::byte*>(theirs)[i], std::byte{7});
  EXPECT_EQ(munmap(theirs, kLarge), 0);
}

// Many endpoints at a time, each of which keeps what its sessions leave.
TEST(AddressRun, EachOfManyRunsIsOneByItself) {
  constexpr size_t kRuns = 100;
  constexpr size_t kPieces = 20;
  std::vector<HostBuffer> beside;
  std::deque<AddressRun> runs(kRuns);
  std::deque<Quarantine> quarantines;
  for (size_t i = 0; i < kRuns; ++i) quarantines.emplace_back(uint64_t{1} << 40);
  for (size_t piece = 0; piece < kPieces; ++piece) {
    for (size_t i = 0; i < kRuns; ++i) {
      beside.push_back(Elsewhere(4096));
      quarantines[i].Take(From(&runs[i], kLarge));
    }
  }
  for (const Quarantine& quarantine : quarantines) EXPECT_EQ(quarantine.ranges(), 1u);
}

// More than a block of addresses.
TEST(AddressRun, ALongRunHasFewRanges) {
  constexpr size_t kPiece = size_t{2} << 30;
  AddressRun run;
  AddressRun other;
  Quarantine quarantine(uint64_t{1} << 40);
  Quarantine others(uint64_t{1} << 40);
  for (int i = 0; i < 70; ++i) {
    quarantine.Take(From(&run, kPiece));
    others.Take(From(&other, kLarge));
  }
  EXPECT_GE(quarantine.bytes(), 70 * kPiece);
#ifdef __SANITIZE_THREAD__
  EXPECT_LE(quarantine.ranges(), 36u);
#else
  EXPECT_LE(quarantine.ranges(), 4u);
#endif
  EXPECT_EQ(others.ranges(), 1u);
}

// What ended long ago leaves its places to others.
TEST(AddressRun, BlocksAreUsedAgain) {
  for (int i = 0; i < 5000; ++i) {
    AddressRun run;
    const HostBuffer first = From(&run, kLarge);
    const HostBuffer second = From(&run, kLarge);
    ASSERT_EQ(second.data() + kLarge, first.data()) << "run " << i;
  }
}

TEST(AddressRun, WhatCannotBeMappedIsRefusedAndTheRunGoesOn) {
  AddressRun run;
  const HostBuffer first = From(&run, kLarge);
  for (const size_t size : {size_t{1} << 60, SIZE_MAX, SIZE_MAX - kLarge}) {
    EXPECT_EQ(run.Allocate(size).status().code(), absl::StatusCode::kResourceExhausted) << size;
  }
  const HostBuffer second = From(&run, kLarge);
  EXPECT_EQ(second.data() + kLarge, first.data());
}

TEST(AddressRun, ThreadsGetPlacesOfTheirOwn) {
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  AddressRun run;
  std::vector<std::vector<HostBuffer>> pieces(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&run, &mine = pieces[t], t] {
      for (int i = 0; i < kEach; ++i) {
        mine.push_back(From(&run, i % 2 == 0 ? 4096 : kLarge));
        mine.back().data()[0] = static_cast<std::byte>(t + 1);
        if (i % 5 == 0) mine.pop_back();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<const HostBuffer*> all;
  for (int t = 0; t < kThreads; ++t) {
    for (const HostBuffer& piece : pieces[t]) {
      EXPECT_EQ(piece.data()[0], static_cast<std::byte>(t + 1));
      all.push_back(&piece);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) ASSERT_FALSE(Overlap(*all[i], *all[j]));
  }
}

}  // namespace
}  // namespace invoker::transport
