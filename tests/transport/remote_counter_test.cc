// Additions to a peer's counters: each exactly once, with contenders, by whichever method the
// fabric has.

#include "src/transport/reactor/remote_counter.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/transport/faults.h"
#include "tests/transport/in_libfabric.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

constexpr size_t kBytes = 4096;
constexpr uint32_t kCounters = 5;

struct Case {
  const char* name;
  const char* provider;
  AddMethod method;
};

std::vector<Case> AllCases() {
  return {{"TcpByMessage", "tcp;ofi_rxm", AddMethod::kMessage},
          {"ShmByMessage", "shm", AddMethod::kMessage},
          {"ShmNative", "shm", AddMethod::kNative},
          {"SocketsByMessage", "sockets", AddMethod::kMessage},
          {"SocketsNative", "sockets", AddMethod::kNative},
          {InLibfabric("net") ? "NetByMessage" : "NativeTcpByMessage",
           InLibfabric("net") ? "net" : "tcp", AddMethod::kMessage},
          {"RxdByMessage", "udp;ofi_rxd", AddMethod::kMessage},
          {"RxdNative", "udp;ofi_rxd", AddMethod::kNative}};
}

std::string NameOfCase(const testing::TestParamInfo<Case>& info) { return info.param.name; }

class RemoteCounter : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    owner_ = Node::Open(GetParam().provider, kBytes);
    ASSERT_NE(owner_, nullptr);
    if (GetParam().method == AddMethod::kNative && !owner_->reactor().native_atomics()) {
      GTEST_SKIP() << "this fabric grants no atomics";
    }
    absl::StatusOr<CounterArray> counters =
        CounterArray::Open(&owner_->reactor(), kCounters, GetParam().method);
    ASSERT_TRUE(counters.ok()) << counters.status();
    counters_ = std::make_unique<CounterArray>(*std::move(counters));
  }

  void TearDown() override { counters_.reset(); }

  Node* AddNode(const ReactorOptions& options = {}) {
    nodes_.push_back(Node::Open(GetParam().provider, kBytes, options));
    remote_.push_back({nodes_.back()->WindowTo(*owner_).peer, counters_->descriptor()});
    return nodes_.back().get();
  }

  bool Run(const std::function<bool()>& done) {
    return PollUntil({owner_.get()}, [&] {
      for (auto& node : nodes_) node->reactor().Poll();
      return done();
    });
  }

  bool AllIdle() const {
    for (const auto& node : nodes_) {
      if (node->outstanding() != 0) return false;
    }
    return true;
  }

  std::unique_ptr<Node> owner_;
  std::unique_ptr<CounterArray> counters_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<RemoteCounters> remote_;  // by node
};

TEST_P(RemoteCounter, SumIsExactUnderContention) {
  constexpr uint64_t kAdds = 2000;
  for (int i = 0; i < 3; ++i) AddNode();
  std::vector<uint64_t> expected(kCounters, 0);
  for (uint64_t add = 0; add < kAdds; ++add) {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const uint32_t index = static_cast<uint32_t>((add + n) % kCounters);
      const uint64_t value = add % 7 == 0 ? 0 : add % 3 == 0 ? UINT64_MAX - add : add + n;
      ASSERT_TRUE(remote_[n].Contains(index));
      ASSERT_TRUE(Run([&] {
        return nodes_[n]->reactor().PostAtomicAdd(remote_[n], index, value, nodes_[n].get(), 0);
      }));
      expected[index] += value;
    }
  }
  const auto reached = [&] {
    for (uint32_t i = 0; i < kCounters; ++i) {
      if (counters_->Read(i) != expected[i]) return false;
    }
    return AllIdle();
  };
  EXPECT_TRUE(Run(reached));
  for (int turn = 0; turn < 1000; ++turn) Run([] { return true; });
  EXPECT_TRUE(reached()) << "something was added twice";
  for (const auto& node : nodes_) EXPECT_TRUE(node->failures.empty());
  EXPECT_EQ(owner_->reactor().counters().stray_messages, 0u);
  EXPECT_TRUE(owner_->tokens.empty());
}

TEST_P(RemoteCounter, LastCounterIsInsideAndTheNextIsNot) {
  Node* node = AddNode();
  EXPECT_FALSE(remote_[0].Contains(kCounters));
  ASSERT_TRUE(remote_[0].Contains(kCounters - 1));
  ASSERT_TRUE(node->reactor().PostAtomicAdd(remote_[0], kCounters - 1, 9, node, 0));
  EXPECT_TRUE(Run([&] { return counters_->Read(kCounters - 1) == 9 && AllIdle(); }));
  for (uint32_t i = 0; i + 1 < kCounters; ++i) EXPECT_EQ(counters_->Read(i), 0u);
}

// Sends and atomics of one endpoint share slots, completions and retries.
TEST_P(RemoteCounter, AdditionsAndNotifiedWritesDoNotDisturbEachOther) {
  constexpr uint32_t kRounds = 500;
  Node* node = AddNode();
  const RemoteWindow window = node->WindowTo(*owner_);
  const Profile& profile = node->reactor().profile();
  const Way way = {"", GetParam().provider, Notification::kSendAfterWrite, profile.send_order,
                   true};
  for (uint32_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(Run([&] { return node->reactor().PostAtomicAdd(remote_[0], 0, 1, node, 0); }));
    ASSERT_TRUE(Run([&] { return node->Write(way, window, 0, 8, i); }));
  }
  EXPECT_TRUE(Run([&] {
    return counters_->Read(0) == kRounds && owner_->tokens.size() == kRounds && AllIdle();
  }));
  EXPECT_TRUE(node->failures.empty());
}

TEST_P(RemoteCounter, RefusedPostsAreRepeatedAndCountOnce) {
  Node* node = AddNode();
  ASSERT_TRUE(node->reactor().PostAtomicAdd(remote_[0], 0, 1, node, 0));
  ASSERT_TRUE(Run([&] { return counters_->Read(0) == 1 && AllIdle(); }));
  constexpr uint64_t kAdds = 50;
  std::map<void*, int> refusals;
  {
    EndpointFaults faults(node->reactor().endpoint().get());
    faults.judge = [&](const EndpointFaults::Attempt& attempt) {
      if (refusals[attempt.context]++ < 5) return -FI_EAGAIN;
      refusals.erase(attempt.context);
      return 0;
    };
    for (uint64_t i = 0; i < kAdds; ++i) {
      ASSERT_TRUE(node->reactor().PostAtomicAdd(remote_[0], 1, 3, node, 0));
    }
    EXPECT_TRUE(Run([&] { return counters_->Read(1) == 3 * kAdds && AllIdle(); }));
    EXPECT_GE(faults.refused, 5 * kAdds);
  }
  EXPECT_GE(node->reactor().counters().posts_refused, 5 * kAdds);
  EXPECT_TRUE(node->failures.empty());
}

TEST_P(RemoteCounter, OwnerOfAFailedPostHearsOnceAndNothingIsAdded) {
  ReactorOptions options;
  options.retry_limit = absl::Milliseconds(20);
  Node* node = AddNode(options);
  // Connecting may take longer than that.
  for (int tries = 0; counters_->Read(0) == 0; ++tries) {
    ASSERT_LT(tries, 100);
    node->failures.clear();
    ASSERT_TRUE(node->reactor().PostAtomicAdd(remote_[0], 0, 1, node, 0));
    ASSERT_TRUE(
        Run([&] { return AllIdle() && (counters_->Read(0) == 1 || !node->failures.empty()); }));
  }
  int verdict = -FI_EHOSTUNREACH;
  EndpointFaults faults(node->reactor().endpoint().get());
  faults.judge = [&](const EndpointFaults::Attempt&) { return verdict; };
  ASSERT_TRUE(node->reactor().PostAtomicAdd(remote_[0], 0, 1, node, 41));
  ASSERT_EQ(node->failures.size(), 1u);
  EXPECT_EQ(node->failures[0].tag, 41u);
  EXPECT_EQ(node->failures[0].status.code(), absl::StatusCode::kUnavailable);
  verdict = -FI_EAGAIN;
  ASSERT_TRUE(node->reactor().PostAtomicAdd(remote_[0], 0, 1, node, 42));
  ASSERT_TRUE(Run([&] { return node->failures.size() == 2; }));
  EXPECT_EQ(node->failures[1].tag, 42u);
  EXPECT_EQ(node->failures[1].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Run([&] { return AllIdle(); }));
  EXPECT_EQ(counters_->Read(0), 1u);
}

TEST_P(RemoteCounter, SlotsBoundWhatIsOutstanding) {
  ReactorOptions options;
  options.operations = 4;
  Node* node = AddNode(options);
  uint64_t posted = 0;
  while (posted < 5 && node->reactor().PostAtomicAdd(remote_[0], 0, 1, node, 0)) ++posted;
  EXPECT_LE(posted, 4u);
  EXPECT_TRUE(Run([&] { return counters_->Read(0) == posted && AllIdle(); }));
}

INSTANTIATE_TEST_SUITE_P(Every, RemoteCounter, testing::ValuesIn(AllCases()), NameOfCase);

TEST(CounterArray, TakesNativeAtomicsExactlyWhereTheFabricHasThem) {
  for (const char* provider : {"tcp;ofi_rxm", "shm"}) {
    auto node = Node::Open(provider, kBytes);
    ASSERT_NE(node, nullptr);
    absl::StatusOr<CounterArray> counters = CounterArray::Open(&node->reactor(), 1);
    ASSERT_TRUE(counters.ok()) << counters.status();
    EXPECT_EQ(counters->descriptor().method == AddMethod::kNative,
              node->reactor().native_atomics());
    if (!node->reactor().native_atomics()) {
      EXPECT_EQ(CounterArray::Open(&node->reactor(), 1, AddMethod::kNative).status().code(),
                absl::StatusCode::kFailedPrecondition);
    }
    EXPECT_EQ(CounterArray::Open(&node->reactor(), 0).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace invoker::transport
