// Additions to a peer's counters: each exactly once, beside others, by the fabric's atomics and
// by message.

#include <vector>

#include "gtest/gtest.h"
#include "src/transport/reactor/remote_counter.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::AddMethod;
using transport::CounterArray;
using transport::Node;
using transport::PollUntil;
using transport::RemoteCounters;

class Atomics : public FabricSuite, public testing::WithParamInterface<AddMethod> {
 protected:
  void SetUp() override {
    FabricSuite::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    owner_ = OpenNode(4096);
    ASSERT_NE(owner_, nullptr);
    if (GetParam() == AddMethod::kNative && !owner_->reactor().native_atomics()) {
      GTEST_SKIP() << "the fabric grants no atomic that adds 64-bit numbers";
    }
  }

  absl::StatusOr<CounterArray> OpenCounters(uint32_t count) {
    absl::StatusOr<CounterArray> counters =
        CounterArray::Open(&owner_->reactor(), count, GetParam());
    EXPECT_TRUE(counters.ok()) << counters.status();
    return counters;
  }

  RemoteCounters ToCounters(Node* from, const CounterArray& counters) {
    return {from->WindowTo(*owner_).peer, counters.descriptor()};
  }

  std::unique_ptr<Node> owner_;
};

TEST_P(Atomics, SumsAreExactUnderContentionOfSeveralPeers) {
  constexpr uint32_t kCounters = 3;
  const uint32_t count = Scaled(1500);
  absl::StatusOr<CounterArray> counters = OpenCounters(kCounters);
  ASSERT_TRUE(counters.ok());
  struct Adder {
    std::unique_ptr<Node> node;
    RemoteCounters remote;
    uint32_t added = 0;
  };
  std::vector<Adder> adders(3);
  for (Adder& adder : adders) {
    adder.node = OpenNode(4096);
    ASSERT_NE(adder.node, nullptr);
    adder.remote = ToCounters(adder.node.get(), *counters);
  }
  uint64_t expected[kCounters] = {};
  const auto complete = [&] {
    bool done = true;
    for (uint64_t index = 0; index < kCounters; ++index) {
      done &= counters->Read(static_cast<uint32_t>(index)) == expected[index];
    }
    return done;
  };
  EXPECT_TRUE(PollUntil({owner_.get()}, [&] {
    bool posted = true;
    bool failed = false;
    for (uint32_t peer = 0; peer < adders.size(); ++peer) {
      Adder& adder = adders[peer];
      while (adder.added < count) {
        const uint32_t index = adder.added % kCounters;
        // Values whose sums carry into the upper half.
        const uint64_t value = adder.added + peer * 0x40000001u;
        if (!adder.node->reactor().PostAtomicAdd(adder.remote, index, value, adder.node.get(), 0)) {
          break;
        }
        expected[index] += value;
        ++adder.added;
      }
      adder.node->reactor().Poll();
      posted &= adder.added == count && adder.node->outstanding() == 0;
      failed |= !adder.node->failures.empty();
    }
    return failed || (posted && complete());
  }));
  for (const Adder& adder : adders) {
    ASSERT_TRUE(adder.node->failures.empty()) << adder.node->failures[0].status;
  }
  for (uint32_t index = 0; index < kCounters; ++index) {
    EXPECT_EQ(counters->Read(index), expected[index]) << "counter " << index;
  }
  // Nothing more comes.
  for (int i = 0; i < 1000; ++i) owner_->reactor().Poll();
  EXPECT_TRUE(complete());
}

TEST_P(Atomics, ACounterWrapsAndItsNeighboursStay) {
  absl::StatusOr<CounterArray> counters = OpenCounters(3);
  ASSERT_TRUE(counters.ok());
  const auto adder = OpenNode(4096);
  ASSERT_NE(adder, nullptr);
  const RemoteCounters remote = ToCounters(adder.get(), *counters);
  EXPECT_TRUE(remote.Contains(2));
  EXPECT_FALSE(remote.Contains(3));
  for (uint64_t value : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 63, uint64_t{43}}) {
    const uint64_t before = counters->Read(1);
    ASSERT_TRUE(adder->reactor().PostAtomicAdd(remote, 1, value, adder.get(), 0));
    ASSERT_TRUE(PollUntil({adder.get(), owner_.get()}, [&] {
      return (counters->Read(1) == before + value && adder->outstanding() == 0) ||
             !adder->failures.empty();
    }));
    ASSERT_TRUE(adder->failures.empty()) << adder->failures[0].status;
  }
  EXPECT_EQ(counters->Read(0), 0u);
  EXPECT_EQ(counters->Read(1), 42u);
  EXPECT_EQ(counters->Read(2), 0u);
}

INSTANTIATE_TEST_SUITE_P(Every, Atomics, testing::Values(AddMethod::kNative, AddMethod::kMessage),
                         [](const testing::TestParamInfo<AddMethod>& info) {
                           return info.param == AddMethod::kNative ? "Native" : "Message";
                         });

class AtomicsByDefault : public FabricSuite {};

// Whatever way a reactor chooses by itself.
TEST_F(AtomicsByDefault, AreAlwaysThere) {
  const auto owner = OpenNode(4096);
  const auto adder = OpenNode(4096);
  ASSERT_TRUE(owner != nullptr && adder != nullptr);
  absl::StatusOr<CounterArray> counters = CounterArray::Open(&owner->reactor(), 1);
  ASSERT_TRUE(counters.ok()) << counters.status();
  const RemoteCounters remote = {adder->WindowTo(*owner).peer, counters->descriptor()};
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(adder->reactor().PostAtomicAdd(remote, 0, 1, adder.get(), 0));
  }
  EXPECT_TRUE(PollUntil({adder.get(), owner.get()}, [&] {
    return counters->Read(0) == 10 && adder->outstanding() == 0;
  })) << counters->Read(0);
}

}  // namespace
}  // namespace invoker::conformance
