// Transfers: a peer's memory is read and written without a word to the peer, and their
// owner hears of the end of each.

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::MemoryRegion;
using transport::Node;
using transport::PollUntil;
using transport::RegionUse;
using transport::RemoteWindow;
using transport::TransferDirection;

constexpr size_t kMemory = 4 << 20;

class Transfers : public FabricSuite {
 protected:
  void SetUp() override {
    FabricSuite::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!Tested().profile.remote_reads) GTEST_SKIP() << "the fabric has no remote reads";
    owner_ = OpenNode(4096);
    user_ = OpenNode(4096);
    ASSERT_TRUE(owner_ != nullptr && user_ != nullptr);
    memory_.resize(kMemory);
    lent_ = Lend(RegionUse::kRemoteSourceSink);
    local_ = user_->NewRegion(kMemory, RegionUse::kTransfer);
    window_ = user_->WindowTo(*owner_, lent_);
  }
  void TearDown() override {
    std::move(lent_).Close();
    // The provider may still be reading from it.
    if (user_ != nullptr) user_->reactor().Retire(std::move(local_));
  }

  MemoryRegion Lend(RegionUse use) {
    auto region = owner_->reactor().Register(
        transport::HostBuffer::Borrow(memory_.data(), memory_.size()), use);
    EXPECT_TRUE(region.ok()) << region.status();
    return *std::move(region);
  }

  bool Post(TransferDirection direction, uint64_t offset, uint64_t local_offset, uint64_t length,
            uint64_t tag) {
    EXPECT_TRUE(window_.Contains(offset, length));
    return user_->reactor().PostTransfer(direction, window_, offset, local_.data() + local_offset,
                                         local_.descriptor(), length, user_.get(), tag);
  }
  bool PollUntilEnded(size_t count) {
    return PollUntil({user_.get(), owner_.get()},
                     [&] { return user_->transfers.size() + user_->failures.size() >= count; });
  }

  std::unique_ptr<Node> owner_;
  std::unique_ptr<Node> user_;
  std::vector<std::byte> memory_;
  MemoryRegion lent_;
  MemoryRegion local_;
  RemoteWindow window_;
};

TEST_F(Transfers, EverySizeAtABoundaryIsReadAndWrittenWhereItShouldAndNowhereElse) {
  std::set<uint64_t> lengths = {1, 2, 3, 4, 7, 8, 63, 64, 65, 4095, 4096, 4097, 65537, 1 << 20};
  for (const uint64_t limit :
       {uint64_t{Tested().profile.inject_bytes}, uint64_t{Tested().profile.eager_bytes}}) {
    for (const uint64_t length : {limit, limit + 1}) {
      if (length > 0 && length <= kMemory / 4) lengths.insert(length);
    }
  }
  uint32_t message = 0;
  for (const uint64_t length : lengths) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, kMemory - length}) {
      for (const TransferDirection direction :
           {TransferDirection::kRead, TransferDirection::kWrite}) {
        const bool reads = direction == TransferDirection::kRead;
        SCOPED_TRACE(testing::Message()
                     << (reads ? "read " : "write ") << length << " bytes at " << offset);
        const uint64_t local_offset = 128;
        std::byte* const there = memory_.data() + offset;
        std::byte* const here = local_.data() + local_offset;
        std::byte* const target = reads ? here : there;
        const uint64_t before = std::min<uint64_t>(64, reads ? local_offset : offset);
        const uint64_t after = std::min<uint64_t>(64, reads ? kMemory : kMemory - offset - length);
        memset(target - before, 0x5a, before + length + after);
        Stamp(reads ? there : here, length, ++message);
        user_->transfers.clear();
        ASSERT_TRUE(Post(direction, offset, local_offset, length, message));
        ASSERT_TRUE(PollUntilEnded(1));
        ASSERT_TRUE(user_->failures.empty()) << user_->failures[0].status;
        EXPECT_EQ(user_->transfers, std::vector<uint64_t>{message});
        EXPECT_EQ(FirstDifference(target, length, message), length);
        const auto untouched = [](std::byte byte) { return byte == std::byte{0x5a}; };
        EXPECT_TRUE(std::all_of(target - before, target, untouched));
        EXPECT_TRUE(std::all_of(target + length, target + length + after, untouched));
      }
    }
  }
  EXPECT_TRUE(owner_->tokens.empty());
  EXPECT_EQ(user_->outstanding(), 0u);
  EXPECT_EQ(user_->reactor().counters().stray_completions, 0u);
}

// When a write's end is told, it has been delivered: the bytes are there though the owner has not
// looked since.
TEST_F(Transfers, ManyAtATimeInBothDirectionsEndOnceEach) {
  constexpr uint64_t kBytes = 16 << 10;
  const uint64_t count = kMemory / 2 / kBytes;
  // The first half is read, the second written.
  for (uint64_t i = 0; i < count; ++i) {
    Stamp(memory_.data() + i * kBytes, kBytes, static_cast<uint32_t>(i));
    Stamp(local_.data() + (count + i) * kBytes, kBytes, static_cast<uint32_t>(1000 + i));
  }
  for (uint64_t i = 0; i < 2 * count; ++i) {
    const uint64_t place = i % 2 * count + i / 2;
    const TransferDirection direction =
        place < count ? TransferDirection::kRead : TransferDirection::kWrite;
    while (!Post(direction, place * kBytes, place * kBytes, kBytes, place)) {
      user_->reactor().Poll();
      owner_->reactor().Poll();
    }
  }
  ASSERT_TRUE(PollUntilEnded(2 * count));
  ASSERT_TRUE(user_->failures.empty()) << user_->failures[0].status;
  for (uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(FirstDifference(local_.data() + i * kBytes, kBytes, static_cast<uint32_t>(i)),
              kBytes);
    EXPECT_EQ(FirstDifference(memory_.data() + (count + i) * kBytes, kBytes,
                              static_cast<uint32_t>(1000 + i)),
              kBytes);
  }
  std::sort(user_->transfers.begin(), user_->transfers.end());
  ASSERT_EQ(user_->transfers.size(), 2 * count);
  for (uint64_t i = 0; i < 2 * count; ++i) EXPECT_EQ(user_->transfers[i], i);
}

TEST_F(Transfers, AnOwnerWhoseOperationsAreRetiredHearsNothing) {
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(Post(TransferDirection::kRead, i << 18, i << 18, 1 << 18, i));
  }
  const size_t ended = user_->transfers.size();
  user_->reactor().RetireAllOf(user_.get());
  EXPECT_TRUE(PollUntil({user_.get(), owner_.get()}, [&] { return user_->outstanding() == 0; }));
  EXPECT_EQ(user_->transfers.size(), ended);
  EXPECT_TRUE(user_->failures.empty());
}

}  // namespace
}  // namespace invoker::conformance
