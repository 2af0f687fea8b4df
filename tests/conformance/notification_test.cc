// A token never arrives before its data, never twice, and with all of its bits.

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::Node;
using transport::PollUntil;
using transport::RemoteWindow;

constexpr size_t kSlots = 16;
constexpr size_t kSlotBytes = 64 * 1024;
constexpr size_t kWindow = kSlots * kSlotBytes;

size_t LengthOf(uint32_t message) {
  constexpr size_t kLengths[] = {8, 64, 300, 1024, 4096, 100, 20000, 1};
  return message % 97 == 0 ? kSlotBytes : kLengths[message % 8] + message % 5;
}

// Many stamped messages from one node to another, of which several are under way at any time. A
// slot of the window is written again when its message has been looked at.
class Stream {
 public:
  // Writes into slots [first, first + slots) of the target's window. Tokens are `base` plus the
  // message's number.
  Stream(const transport::Way& way, Node* sender, Node* target, uint32_t messages, uint32_t base,
         size_t first = 0, size_t slots = kSlots)
      : way_(way),
        sender_(sender),
        target_(target),
        window_(sender->WindowTo(*target)),
        base_(base),
        first_(first),
        free_(slots, true),
        arrived_(messages, false) {}

  bool Owns(uint32_t token) const { return token - base_ < arrived_.size(); }

  void OnToken(uint32_t token) {
    const uint32_t message = token - base_;
    ASSERT_FALSE(arrived_[message]) << "message " << message << " was announced twice";
    arrived_[message] = true;
    ++delivered_;
    const size_t slot = message % free_.size();
    const std::byte* data = target_->window.data() + (first_ + slot) * kSlotBytes;
    if (FirstDifference(data, LengthOf(message), token) != LengthOf(message)) ++early_;
    free_[slot] = true;
  }

  // Posts what there is room for.
  void Post() {
    while (next_ < arrived_.size() && free_[next_ % free_.size()]) {
      const size_t offset = (first_ + next_ % free_.size()) * kSlotBytes;
      Stamp(sender_->source.data() + offset, LengthOf(next_), base_ + next_);
      if (!sender_->Write(way_, window_, offset, LengthOf(next_), base_ + next_)) return;
      free_[next_ % free_.size()] = false;
      ++next_;
    }
  }

  bool done() const { return delivered_ == arrived_.size(); }
  uint32_t early() const { return early_; }

 private:
  const transport::Way way_;
  Node* sender_;
  Node* target_;
  RemoteWindow window_;
  uint32_t base_;
  size_t first_;
  std::vector<bool> free_;
  std::vector<bool> arrived_;
  uint32_t next_ = 0;
  size_t delivered_ = 0;
  uint32_t early_ = 0;
};

class Notifications : public WaysSuite {
 protected:
  void SetUp() override {
    WaysSuite::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    hub_ = OpenNode(kWindow);
    other_ = OpenNode(kWindow);
    ASSERT_TRUE(hub_ != nullptr && other_ != nullptr);
  }

  std::unique_ptr<Node> hub_;
  std::unique_ptr<Node> other_;
};

// The heart of a notification.
TEST_P(Notifications, ATokenNeverArrivesBeforeItsData) {
  Stream stream(GetParam(), other_.get(), hub_.get(), Scaled(6000), 0);
  hub_->on_token = [&](uint32_t token) {
    ASSERT_TRUE(stream.Owns(token)) << token;
    stream.OnToken(token);
  };
  EXPECT_TRUE(PollUntil({hub_.get(), other_.get()}, [&] {
    stream.Post();
    return stream.done() || !other_->failures.empty();
  }));
  EXPECT_EQ(stream.early(), 0u);
  EXPECT_TRUE(other_->failures.empty()) << other_->failures[0].status;
}

TEST_P(Notifications, NeitherInEitherDirectionAtOnce) {
  const uint32_t count = Scaled(2000);
  Stream there(GetParam(), other_.get(), hub_.get(), count, 0x80000000u);
  Stream back(GetParam(), hub_.get(), other_.get(), count, 0xfffffff0u - count);
  hub_->on_token = [&](uint32_t token) {
    ASSERT_TRUE(there.Owns(token)) << token;
    there.OnToken(token);
  };
  other_->on_token = [&](uint32_t token) {
    ASSERT_TRUE(back.Owns(token)) << token;
    back.OnToken(token);
  };
  EXPECT_TRUE(PollUntil({hub_.get(), other_.get()}, [&] {
    there.Post();
    back.Post();
    return (there.done() && back.done()) || !other_->failures.empty() || !hub_->failures.empty();
  }));
  EXPECT_EQ(there.early() + back.early(), 0u);
  EXPECT_TRUE(other_->failures.empty()) << other_->failures[0].status;
  EXPECT_TRUE(hub_->failures.empty()) << hub_->failures[0].status;
}

TEST_P(Notifications, NeitherFromSeveralPeersAtOnce) {
  const auto third = OpenNode(kWindow);
  const auto fourth = OpenNode(kWindow);
  ASSERT_TRUE(third != nullptr && fourth != nullptr);
  const uint32_t count = Scaled(1500);
  std::vector<Stream> streams;
  uint32_t index = 0;
  for (Node* sender : {other_.get(), third.get(), fourth.get()}) {
    streams.emplace_back(GetParam(), sender, hub_.get(), count, index * 0x55555555u,
                         index * kSlots / 4, kSlots / 4);
    ++index;
  }
  hub_->on_token = [&](uint32_t token) {
    for (Stream& stream : streams) {
      if (stream.Owns(token)) return stream.OnToken(token);
    }
    ADD_FAILURE() << "nobody sent " << token;
  };
  EXPECT_TRUE(PollUntil({hub_.get(), other_.get(), third.get(), fourth.get()}, [&] {
    bool done = true;
    for (Stream& stream : streams) {
      stream.Post();
      done &= stream.done();
    }
    return done;
  }));
  for (const Stream& stream : streams) EXPECT_EQ(stream.early(), 0u);
}

TEST_P(Notifications, ATokenKeepsAllOfIts32Bits) {
  const RemoteWindow window = other_->WindowTo(*hub_);
  std::vector<uint32_t> tokens = {0, 0xffffffffu, 0x80000000u, 0x7fffffffu, 0xdeadbeefu};
  for (int bit = 0; bit < 32; ++bit) tokens.push_back(uint32_t{1} << bit);
  for (uint32_t token : tokens) {
    hub_->tokens.clear();
    ASSERT_TRUE(other_->Write(GetParam(), window, 0, 8, token));
    ASSERT_TRUE(PollUntil({hub_.get(), other_.get()}, [&] { return !hub_->tokens.empty(); }));
    EXPECT_EQ(hub_->tokens, std::vector<uint32_t>{token});
  }
}

// A doorbell without data.
TEST_P(Notifications, AWriteOfNothingStillNotifies) {
  const RemoteWindow window = other_->WindowTo(*hub_);
  for (uint64_t offset : {uint64_t{0}, uint64_t{kWindow}}) {
    hub_->tokens.clear();
    ASSERT_TRUE(other_->Write(GetParam(), window, offset, 0, 0xc0ffee));
    ASSERT_TRUE(PollUntil({hub_.get(), other_.get()}, [&] { return !hub_->tokens.empty(); }));
    EXPECT_EQ(hub_->tokens, std::vector<uint32_t>{0xc0ffee});
  }
  EXPECT_TRUE(PollUntil({hub_.get(), other_.get()}, [&] { return other_->outstanding() == 0; }));
  EXPECT_TRUE(other_->failures.empty());
}

INSTANTIATE_TEST_SUITE_P(Every, Notifications, testing::ValuesIn(EveryWay()), transport::NameOfWay);

}  // namespace
}  // namespace invoker::conformance
