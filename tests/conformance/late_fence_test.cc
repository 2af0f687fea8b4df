// A peer that stops in the middle of a message, and goes on when its session has long been fenced
// and the memory's time is over: what it still writes lands in nobody's memory, and what it still
// gets is nobody's.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::MemoryRegion;
using transport::Node;
using transport::Peer;
using transport::PollUntil;
using transport::RegionUse;
using transport::RemoteWindow;

// Much more than the kernel takes on the way between two sockets.
constexpr size_t kBig = size_t{24} << 20;
constexpr size_t kSmall = 1024;
constexpr uint32_t kHello = 7;
constexpr uint32_t kLate = 8;
constexpr std::byte kFirst{0xAA};   // the fenced session's
constexpr std::byte kSecond{0xBB};  // the next one's
// So many regions take all addresses that have just become free.
constexpr int kRegions = 3;
// Writes, of which one is found half placed. An emulated fabric places the half of them whole, or
// all at one turn.
constexpr int kTries = 40;
// Longer than an emulated fabric keeps a write to itself.
constexpr int kTurns = 500;

class LateFence : public WaysSuite {
 protected:
  void SetUp() override {
    WaysSuite::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    length_ = std::min<uint64_t>(kBig, Tested().profile.max_message_bytes);
    transport::ReactorOptions options;
    options.retirement = absl::Milliseconds(20);
    options.quarantine_after = absl::Milliseconds(20);
    // `target_` is a server, and `peer_` the client that stops.
    target_ = OpenNode(length_, options);
    peer_ = OpenNode(length_);
    ASSERT_TRUE(target_ != nullptr && peer_ != nullptr);
    to_target_ = peer_->WindowTo(*target_, target_->window, &at_peer_);
    to_peer_ = target_->WindowTo(*peer_, peer_->window, &at_target_);
    // A connection, where there is such a thing.
    ASSERT_TRUE(Send(peer_.get(), to_target_, target_.get()));
    ASSERT_TRUE(Send(target_.get(), to_peer_, peer_.get()));
    std::fill_n(target_->source.data(), length_, kFirst);
    std::fill_n(peer_->source.data(), length_, kFirst);
  }

  static bool Send(Node* from, const RemoteWindow& to, Node* at) {
    at->tokens.clear();
    bool posted = false;
    return PollUntil({from, at}, [&] {
      posted = posted || from->Write(GetParam(), to, 0, kSmall, kHello);
      return posted && from->outstanding() == 0 &&
             std::count(at->tokens.begin(), at->tokens.end(), kHello) == 1;
    });
  }

  // Whether one byte of a page at least has been placed; the order is the fabric's.
  bool AnyPlaced() const {
    constexpr size_t kPage = 4096;
    for (size_t at = 0; at < length_; at += kPage) {
      if (target_->window.data()[at] == kFirst) return true;
    }
    return target_->window.data()[length_ - 1] == kFirst;
  }

  // False if no write was ever seen half placed. Otherwise the writer has stopped in the last one.
  bool WriteUntilHalfPlaced() {
    std::byte* const window = target_->window.data();
    for (int i = 0; i < kTries; ++i) {
      std::fill_n(window, length_, kSecond);
      target_->tokens.clear();
      bool posted = false;
      const bool any = PollUntil({peer_.get(), target_.get()}, [&] {
        posted = posted || peer_->Write(GetParam(), to_target_, 0, length_, kLate);
        return AnyPlaced();
      });
      if (!any) return false;
      if (std::count(window, window + length_, kFirst) < static_cast<ptrdiff_t>(length_)) {
        return true;
      }
      const bool done = PollUntil({peer_.get(), target_.get()}, [&] {
        return peer_->outstanding() == 0 && target_->tokens.size() == 1;
      });
      if (!done) return false;
    }
    return false;
  }

  // Writes to the peer, which stands still, and fences it. False if each write has ended before it
  // was written off: the peer's provider may have a thread that is faster, when this one gets no
  // core. Otherwise the last one goes on, and the memory that it is read from, `staging`, has been
  // retired.
  bool WriteUntilOneIsLate(const std::byte** staging) {
    for (int i = 0; i < kTries; ++i) {
      std::fill_n(peer_->window.data(), length_, std::byte{0});
      *staging = target_->source.data();
      if (!target_->Write(GetParam(), to_peer_, 0, length_, kLate)) return false;
      // What the provider refuses at first, and has not taken yet, would be dropped.
      const bool taken = PollUntil({target_.get()}, [&] {
        bool is_refused = false;
        target_->reactor().ForEachUntold(
            target_.get(), [&is_refused](const transport::Operation&) { is_refused = true; });
        return !is_refused;
      });
      target_->reactor().RetireAllOf(target_.get());
      target_->reactor().Retire(std::move(target_->source));
      const bool ended = taken && PollUntil({target_.get()}, [&] {
                           return !target_->reactor().has_retired() && target_->outstanding() == 0;
                         });
      if (!ended) return false;
      if (target_->reactor().operations().quarantined() > 0) return true;
      target_->source = target_->NewRegion(length_, RegionUse::kSource);
      std::fill_n(target_->source.data(), length_, kFirst);
    }
    return false;
  }

  // Whether any of its bytes may be one of those.
  static bool Overlap(const MemoryRegion& region, const std::byte* begin, size_t size) {
    return region.data() < begin + size && begin < region.data() + region.size();
  }

  // What the next sessions get.
  std::vector<MemoryRegion> TakeMemory(RegionUse use) {
    std::vector<MemoryRegion> regions;
    for (int i = 0; i < kRegions; ++i) {
      regions.push_back(target_->NewRegion(length_, use));
      std::fill_n(regions.back().data(), length_, kSecond);
    }
    return regions;
  }

  // A third side finds the target in order.
  void ExpectTargetServes(const MemoryRegion& region) {
    const std::unique_ptr<Node> other = OpenNode(kSmall);
    ASSERT_NE(other, nullptr);
    EXPECT_TRUE(Send(other.get(), other->WindowTo(*target_, region), target_.get()));
  }

  size_t length_ = 0;
  std::unique_ptr<Node> target_;
  std::unique_ptr<Node> peer_;
  const Peer* at_peer_ = nullptr;
  const Peer* at_target_ = nullptr;
  RemoteWindow to_target_;
  RemoteWindow to_peer_;
};

TEST_P(LateFence, TheRestOfAWriteLandsInNobodysMemory) {
  std::byte* const window = target_->window.data();
  const bool half_placed = WriteUntilHalfPlaced();
  if (!half_placed && getenv("INVOKER_SANITIZER") != nullptr) {
    GTEST_SKIP() << "the provider's thread places the rest before this one, which the sanitizer "
                    "slows, can look";
  }
  ASSERT_TRUE(half_placed) << kTries << " writes, and each was placed whole at once";
  // No more turns of the target's: where it is they that place the rest, all of it is still to
  // come.
  target_->reactor().Retire(std::move(target_->window));
  std::vector<MemoryRegion> regions;
  const auto take_more = [&] {
    for (MemoryRegion& region : TakeMemory(RegionUse::kRemoteTarget)) {
      EXPECT_FALSE(Overlap(region, window, length_));
      regions.push_back(std::move(region));
    }
  };
  take_more();
  ASSERT_TRUE(PollUntil({target_.get()}, [&] { return !target_->reactor().has_retired(); }));
  EXPECT_GE(target_->reactor().quarantine().bytes(), length_);
  take_more();
  ASSERT_TRUE(PollUntil({peer_.get(), target_.get()}, [&] { return peer_->outstanding() == 0; }));
  // An emulated fabric may have told the writer before it has placed all.
  int turns = 0;
  ASSERT_TRUE(PollUntil({peer_.get(), target_.get()}, [&] { return ++turns > kTurns; }));
  for (const MemoryRegion& region : regions) {
    EXPECT_EQ(std::count(region.data(), region.data() + length_, kSecond),
              static_cast<ptrdiff_t>(length_));
  }
  ExpectTargetServes(regions.front());
}

TEST_P(LateFence, TheRestOfAWriteToAPeerIsOfNobodyElse) {
  const std::byte* staging = nullptr;
  ASSERT_TRUE(WriteUntilOneIsLate(&staging))
      << kTries << " writes have ended, though the peer stopped: nothing of them is late";
  EXPECT_EQ(target_->reactor().held(), 1u);

  const std::vector<MemoryRegion> regions = TakeMemory(RegionUse::kSource);
  for (const MemoryRegion& region : regions) EXPECT_FALSE(Overlap(region, staging, length_));
  ASSERT_TRUE(PollUntil({peer_.get(), target_.get()},
                        [&] { return target_->reactor().operations().quarantined() == 0; }));
  // The peer takes the message for what was posted, so it is that to its last byte.
  EXPECT_TRUE(PollUntil({peer_.get(), target_.get()}, [&] {
    return peer_->window.data()[length_ - 1] == kFirst &&
           std::count(peer_->window.data(), peer_->window.data() + length_, kFirst) ==
               static_cast<ptrdiff_t>(length_);
  }));
  // Nothing reads it any more.
  EXPECT_TRUE(PollUntil({target_.get()}, [&] { return target_->reactor().held() == 0; }));
  ExpectTargetServes(target_->window);
}

INSTANTIATE_TEST_SUITE_P(Every, LateFence, testing::ValuesIn(EveryWay()), transport::NameOfWay);

}  // namespace
}  // namespace invoker::conformance
