// What a million peers cost in memory of ours, and that nothing is lost among them. The address
// vector is an emulated one, so that all that is counted is the table's.

#include <cstring>
#include <string>
#include <vector>

#include "bench/harness/counted_memory.h"
#include "gtest/gtest.h"
#include "src/transport/reactor/peer_table.h"
#include "tests/transport/faults.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

constexpr uint32_t kMillion = 1'000'000;
constexpr int64_t kMostBytesPerPeer = 64;

// An address vector of raw addresses of one length, in place of the provider's.
class EmulatedVector {
 public:
  enum class Answer { kExact, kAltered, kNone };

  EmulatedVector(fid_av* av, size_t raw_bytes, size_t most)
      : av_(&av->ops, this), raw_bytes_(raw_bytes) {
    raw_.reserve(raw_bytes * most);
    av_.ours().insert = &Insert;
    av_.ours().remove = &Remove;
    av_.ours().lookup = &Lookup;
  }

  Answer answer = Answer::kExact;
  size_t removed = 0;

 private:
  using Vector = ReplacedOps<fi_ops_av, EmulatedVector>;

  static int Insert(fid_av* av, const void* raw, size_t, fi_addr_t* addresses, uint64_t, void*) {
    EmulatedVector& self = Vector::From(av->ops);
    const char* bytes = static_cast<const char*>(raw);
    addresses[0] = self.raw_.size() / self.raw_bytes_;
    self.raw_.insert(self.raw_.end(), bytes, bytes + self.raw_bytes_);
    return 1;
  }

  static int Remove(fid_av* av, fi_addr_t*, size_t count, uint64_t) {
    Vector::From(av->ops).removed += count;
    return 0;
  }

  static int Lookup(fid_av* av, fi_addr_t address, void* raw, size_t* size) {
    const EmulatedVector& self = Vector::From(av->ops);
    if (self.answer == Answer::kNone) return -FI_ENOSYS;
    memcpy(raw, &self.raw_[address * self.raw_bytes_], std::min(*size, self.raw_bytes_));
    if (self.answer == Answer::kAltered) static_cast<char*>(raw)[0] ^= 1;
    *size = self.raw_bytes_;
    return 0;
  }

  Vector av_;
  const size_t raw_bytes_;
  std::vector<char> raw_;
};

// A string of so many bytes, its final NUL included.
std::string Name(size_t bytes) { return std::string(bytes - 1, 'x') + '\0'; }

// Up to 2^28, in bytes of which none is NUL.
void SetNumber(uint32_t number, std::string* name) {
  for (int i = 0; i < 4; ++i) (*name)[3 + i] = static_cast<char>(0x80 | (number >> 7 * i & 0x7f));
}

class PeerScaleTest : public testing::TestWithParam<size_t> {
 protected:
  // Its addresses are strings, so they may have any length.
  void SetUp() override {
    local_ = LocalFabric::Open("shm");
    ASSERT_NE(local_, nullptr);
    vector_.emplace(local_->av->get(), GetParam(), kMillion + 1);
    raw_ = Name(GetParam());
  }

  const std::string& Raw(uint32_t number) {
    SetNumber(number, &raw_);
    return raw_;
  }

  std::unique_ptr<LocalFabric> local_;
  std::optional<EmulatedVector> vector_;
  std::string raw_;
};

TEST_P(PeerScaleTest, AMillionPeersStayWithinTheirMemoryAndGiveItBack) {
  std::vector<const Peer*> peers(kMillion);
  PeerTable table(
      &*local_->av, [] { return PeerUses(); }, 2);
  Raw(0);
  // Insert's buffer is the address vector's for good.
  table.Release(*table.Insert(raw_));
  while (table.quarantined() > 0) table.RemoveIdle();
  vector_->removed = 0;
  const int64_t before = bench::OurBytes();

  int64_t most_per_peer = 0;
  for (uint32_t i = 0; i < kMillion; ++i) {
    const auto peer = table.Insert(Raw(i));
    ASSERT_TRUE(peer.ok()) << peer.status();
    peers[i] = *peer;
    // A table is emptiest just after it has grown.
    if (i >= 100'000)
      most_per_peer = std::max(most_per_peer, (bench::OurBytes() - before) / (i + 1));
  }
  EXPECT_EQ(table.live(), kMillion);
  EXPECT_LE(most_per_peer, kMostBytesPerPeer);
  RecordProperty("most_bytes_per_peer", std::to_string(most_per_peer));

  for (uint32_t i = 0; i < kMillion; i += 997) {
    ASSERT_EQ(*table.Insert(Raw(i)), peers[i]);
    table.Release(peers[i]);
  }
  EXPECT_EQ(table.quarantined(), 0u);

  for (const Peer* peer : peers) table.Release(peer);
  EXPECT_EQ(table.quarantined(), kMillion);
  EXPECT_EQ(table.live(), 0u);
  while (table.quarantined() > 0) {
    const size_t removed_before = vector_->removed;
    table.RemoveIdle();
    // A driver has other things to do as well.
    ASSERT_LE(vector_->removed - removed_before, 1000u);
  }
  EXPECT_EQ(vector_->removed, kMillion);
  EXPECT_LT(bench::OurBytes() - before, 4096);
}

INSTANTIATE_TEST_SUITE_P(RawBytes, PeerScaleTest, testing::Values(16, 32, 48),
                         [](const auto& info) { return std::to_string(info.param); });

class RawAddressTest : public testing::TestWithParam<EmulatedVector::Answer> {};

INSTANTIATE_TEST_SUITE_P(, RawAddressTest,
                         testing::Values(EmulatedVector::Answer::kExact,
                                         EmulatedVector::Answer::kAltered,
                                         EmulatedVector::Answer::kNone),
                         [](const auto& info) {
                           return std::string(info.index == 0   ? "GivenBack"
                                              : info.index == 1 ? "Altered"
                                                                : "NotGivenBack");
                         });

// Peers are told apart whatever the provider says about their addresses.
TEST_P(RawAddressTest, PeersAreFoundAgain) {
  constexpr uint32_t kCount = 5000;
  const auto local = LocalFabric::Open("shm");
  ASSERT_NE(local, nullptr);
  EmulatedVector vector(local->av->get(), 16, 2 * kCount);
  vector.answer = GetParam();
  PeerTable table(&*local->av, [] { return PeerUses(); });
  std::string raw = Name(16);
  const auto insert = [&](uint32_t number) {
    SetNumber(number, &raw);
    return *table.Insert(raw);
  };
  std::vector<const Peer*> peers;
  for (uint32_t i = 0; i < kCount; ++i) peers.push_back(insert(i));
  EXPECT_EQ(table.live(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(insert(i), peers[i]);
  EXPECT_EQ(table.live(), kCount);
  for (uint32_t i = 0; i < kCount; i += 2) {
    table.Release(peers[i]);
    table.Release(peers[i]);
  }
  EXPECT_EQ(table.live(), kCount / 2);
  EXPECT_EQ(vector.removed, kCount / 2);
  for (uint32_t i = 0; i < kCount; ++i) {
    const Peer* peer = insert(i);
    EXPECT_EQ(peer->references, i % 2 == 0 ? 1u : 3u);
    EXPECT_EQ(peer->epoch, 1u);
  }
  EXPECT_EQ(table.live(), kCount);
}

// Many times over within one quarantine.
TEST(PeerQuarantineTest, APeerThatComesAndGoesIsRemovedOnce) {
  const auto local = LocalFabric::Open("shm");
  ASSERT_NE(local, nullptr);
  EmulatedVector vector(local->av->get(), 16, 100);
  PeerTable table(
      &*local->av, [] { return PeerUses(); }, 10);
  const std::string raw = Name(16);
  for (uint32_t round = 1; round <= 50; ++round) {
    const Peer* peer = *table.Insert(raw);
    EXPECT_EQ(peer->epoch, round);
    table.Release(peer);
    if (round % 5 == 0) table.RemoveIdle();
    EXPECT_EQ(table.quarantined(), 1u);
  }
  // Ten calls are survived since the last release, of which one came after it already.
  for (int i = 0; i < 9; ++i) table.RemoveIdle();
  EXPECT_EQ(vector.removed, 0u);
  EXPECT_EQ(table.quarantined(), 1u);
  table.RemoveIdle();
  EXPECT_EQ(vector.removed, 1u);
  EXPECT_EQ(table.quarantined(), 0u);
}

}  // namespace
}  // namespace invoker::transport
