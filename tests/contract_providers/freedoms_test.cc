// Each freedom that a contract leaves is really used, and each promise holds nevertheless.

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/contract_providers/raw_endpoint.h"

namespace contract {
namespace {

constexpr size_t kSlot = 64;

class Freedoms : public testing::TestWithParam<Emulated> {
 protected:
  Freedoms() {
    RawEndpoint::Options options;
    // Where an immediate needs it.
    if (GetParam().provider == std::string("gni")) options.caps |= FI_RMA_EVENT;
    a_ = std::make_unique<RawEndpoint>(GetParam(), options);
    b_ = std::make_unique<RawEndpoint>(GetParam(), options);
    to_b_ = a_->Insert(b_->Name());
    b_->Insert(a_->Name());
  }

  ssize_t Write(size_t from, size_t length, size_t to, void* context) {
    return Insist({a_.get(), b_.get()}, [&] {
      return fi_write(a_->endpoint.get(), a_->memory.data() + from, length, a_->descriptor(), to_b_,
                      b_->remote(to), b_->key(), context);
    });
  }

  ssize_t WriteData(size_t from, size_t length, size_t to, uint64_t data, void* context) {
    return Insist({a_.get(), b_.get()}, [&] {
      return fi_writedata(a_->endpoint.get(), a_->memory.data() + from, length, a_->descriptor(),
                          data, to_b_, b_->remote(to), b_->key(), context);
    });
  }

  ssize_t Send(size_t from, size_t length, void* context) {
    return Insist({a_.get(), b_.get()}, [&] {
      return fi_send(a_->endpoint.get(), a_->memory.data() + from, length, a_->descriptor(), to_b_,
                     context);
    });
  }

  // Receives of `length` bytes each at the end of b's memory, slot i at ReceiveAt(i).
  void PostReceives(size_t count, size_t length) {
    receive_bytes_ = length;
    for (size_t i = 0; i < count; ++i) PostReceive(i);
  }
  void PostReceive(size_t i) {
    ASSERT_EQ(fi_recv(b_->endpoint.get(), ReceiveAt(i), receive_bytes_, b_->descriptor(),
                      FI_ADDR_UNSPEC, reinterpret_cast<void*>(i + 1)),
              0);
  }
  uint8_t* ReceiveAt(size_t i) {
    return b_->memory.data() + RawEndpoint::kMemory - (i + 1) * receive_bytes_;
  }

  std::unique_ptr<RawEndpoint> a_;
  std::unique_ptr<RawEndpoint> b_;
  fi_addr_t to_b_ = FI_ADDR_NOTAVAIL;
  size_t receive_bytes_ = 0;
};

// libfabric 1.17's efa marks a peer's write as one of the target's own as well.
uint64_t ImmediateFlags(const Emulated& fabric) {
  const bool first_efa =
      fabric.provider == std::string("efa") && fabric.generation == std::string("1");
  return FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA | (first_efa ? FI_WRITE : 0);
}

void* Context(size_t i) { return reinterpret_cast<void*>(i + 1); }
uint32_t Word(const uint8_t* at) {
  uint32_t word;
  memcpy(&word, at, sizeof(word));
  return word;
}

TEST_P(Freedoms, SendOvertakesTheWriteBeforeIt) {
  PostReceives(1, 16);
  int missing = 0;
  b_->on_entry = [&](const fi_cq_data_entry& entry) {
    if ((entry.flags & FI_RECV) == 0) return;
    if (Word(b_->memory.data()) != Word(ReceiveAt(0))) ++missing;
  };
  // A round's word differs from the last one's in every byte: it is there only when all its pieces
  // are, and no piece lands in the next round.
  constexpr uint32_t kRounds = 255;
  for (uint32_t i = 1; i <= kRounds; ++i) {
    const uint32_t word = i * 0x01010101;
    memcpy(a_->memory.data(), &word, sizeof(word));
    ASSERT_EQ(Write(0, sizeof(word), 0, Context(0)), 0);
    ASSERT_EQ(Send(0, sizeof(word), Context(1)), 0);
    ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] {
      return a_->entries.size() == 2 * i && b_->Count(FI_RECV) == i &&
             Word(b_->memory.data()) == word;
    }));
    PostReceive(0);
  }
  EXPECT_GT(missing, 0);
  EXPECT_LT(missing, static_cast<int>(kRounds));
  EXPECT_GT(b_->GetStatistics().sends_overtook, 0u);
}

TEST_P(Freedoms, WriteIsSeenInPiecesAndLastBytesFirst) {
  bool partial = false;
  bool last_first = false;
  for (int i = 1; i <= 200; ++i) {
    memset(a_->memory.data(), i, kSlot);
    const auto value = static_cast<uint8_t>(i);
    ASSERT_EQ(Write(0, kSlot, 0, Context(0)), 0);
    ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] {
      const auto begin = b_->memory.begin();
      const auto placed = std::count(begin, begin + kSlot, value);
      if (placed > 0 && placed < static_cast<long>(kSlot)) {
        partial = true;
        last_first = last_first || (begin[kSlot - 1] == value && begin[0] != value);
      }
      return placed == kSlot;
    }));
  }
  EXPECT_TRUE(partial);
  EXPECT_TRUE(last_first);
}

TEST_P(Freedoms, CompletionsComeInAnyOrderAndBeforePlacement) {
  constexpr uint32_t kWrites = 400;
  int before_placement = 0;
  a_->on_entry = [&](const fi_cq_data_entry& entry) {
    const auto i = reinterpret_cast<uintptr_t>(entry.op_context) - 1;
    if (Word(b_->memory.data() + i * kSlot) != i + 1) ++before_placement;
  };
  for (uint32_t i = 0; i < kWrites; ++i) {
    const uint32_t value = i + 1;
    memcpy(a_->memory.data() + i * kSlot, &value, sizeof(value));
    ASSERT_EQ(Write(i * kSlot, sizeof(value), i * kSlot, Context(i)), 0);
  }
  ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] { return a_->entries.size() == kWrites; }));
  const bool in_order =
      std::is_sorted(a_->entries.begin(), a_->entries.end(),
                     [](const auto& x, const auto& y) { return x.op_context < y.op_context; });
  EXPECT_FALSE(in_order);
  EXPECT_GT(before_placement, 0);
}

TEST_P(Freedoms, ImmediateComesAfterAllBytesInAnyOrderAndSaysNothingElse) {
  std::mt19937 random(1);
  constexpr uint32_t kWrites = 3000;
  constexpr size_t kSlots = 50;
  constexpr size_t kSlotBytes = 10000;
  std::vector<size_t> length(kWrites);
  std::vector<bool> busy(kSlots);
  std::vector<uint64_t> tokens;
  int incomplete = 0;
  b_->on_entry = [&](const fi_cq_data_entry& entry) {
    ASSERT_EQ(entry.flags, ImmediateFlags(GetParam()));
    EXPECT_EQ(entry.op_context, nullptr);
    tokens.push_back(entry.data);
    const size_t slot = entry.data % kSlots;
    const auto value = static_cast<uint8_t>(entry.data * 7 + 1);
    const auto begin = b_->memory.begin() + static_cast<long>(slot * kSlotBytes);
    const auto end = begin + static_cast<long>(length[entry.data]);
    if (!std::all_of(begin, end, [value](uint8_t byte) { return byte == value; })) ++incomplete;
    busy[slot] = false;
  };
  for (uint32_t i = 0; i < kWrites; ++i) {
    const size_t slot = i % kSlots;
    // The slot's source and target are used again only after its immediate.
    ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] { return !busy[slot]; }));
    busy[slot] = true;
    length[i] = i % 3 == 0 ? random() % kSlotBytes : random() % 100;
    memset(a_->memory.data() + slot * kSlotBytes, static_cast<uint8_t>(i * 7 + 1), length[i]);
    ASSERT_EQ(WriteData(slot * kSlotBytes, length[i], slot * kSlotBytes, i, Context(i)), 0);
  }
  ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] { return tokens.size() == kWrites; }));
  EXPECT_EQ(incomplete, 0);
  EXPECT_EQ(std::set<uint64_t>(tokens.begin(), tokens.end()).size(), kWrites);
  EXPECT_FALSE(std::is_sorted(tokens.begin(), tokens.end()));
  for (fi_addr_t source : b_->entry_sources) ASSERT_EQ(source, FI_ADDR_NOTAVAIL);
  // A length that could be believed would be the write's own in all of them.
  EXPECT_NE(b_->entries.front().len, length[b_->entries.front().data]);
}

TEST_P(Freedoms, SendAfterDeliveryCompleteWriteFindsTheBytes) {
  PostReceives(1, 16);
  int missing = 0;
  b_->on_entry = [&](const fi_cq_data_entry& entry) {
    if ((entry.flags & FI_RECV) != 0 && Word(b_->memory.data()) != Word(ReceiveAt(0))) ++missing;
  };
  for (uint32_t i = 1; i <= 1000; ++i) {
    memcpy(a_->memory.data(), &i, sizeof(i));
    ASSERT_EQ(Insist({a_.get(), b_.get()},
                     [&] {
                       return DeliveryWrite(a_->endpoint.get(), a_->memory.data(), a_->descriptor(),
                                            sizeof(i), to_b_, b_->remote(0), b_->key(), Context(0));
                     }),
              0);
    ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] { return a_->entries.size() == 2 * i - 1; }));
    ASSERT_EQ(Word(b_->memory.data()), i);
    ASSERT_EQ(Send(0, sizeof(i), Context(1)), 0);
    ASSERT_TRUE(PollUntil({a_.get(), b_.get()},
                          [&] { return a_->entries.size() == 2 * i && b_->Count(FI_RECV) == i; }));
    PostReceive(0);
  }
  EXPECT_EQ(missing, 0);
}

TEST_P(Freedoms, SendsKeepTheirOrder) {
  if ((a_->info->tx_attr->msg_order & FI_ORDER_SAS) == 0) {
    GTEST_SKIP() << "this fabric does not promise it";
  }
  std::mt19937 random(2);
  constexpr size_t kReceives = 40;
  constexpr uint32_t kSends = 3000;
  constexpr size_t kMost = 8000;  // up to three packets
  PostReceives(kReceives, kMost);
  uint32_t next = 0;
  bool ordered = true;
  b_->on_entry = [&](const fi_cq_data_entry& entry) {
    const auto i = reinterpret_cast<uintptr_t>(entry.op_context) - 1;
    ordered = ordered && Word(ReceiveAt(i)) == next++;
    PostReceive(i);
  };
  // A source of its own for each message that may be under way.
  constexpr size_t kSources = 64;
  std::vector<bool> busy(kSources);
  a_->on_entry = [&](const fi_cq_data_entry& entry) {
    busy[reinterpret_cast<uintptr_t>(entry.op_context) - 1] = false;
  };
  for (uint32_t i = 0; i < kSends; ++i) {
    const size_t source = i % kSources;
    ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] { return !busy[source]; }));
    busy[source] = true;
    memcpy(a_->memory.data() + source * kMost, &i, sizeof(i));
    const size_t length = i % 4 == 0 ? 4 + random() % (kMost - 4) : 4;
    ASSERT_EQ(Send(source * kMost, length, Context(source)), 0);
  }
  ASSERT_TRUE(PollUntil({a_.get(), b_.get()}, [&] { return next == kSends; }));
  EXPECT_TRUE(ordered);
}

TEST_P(Freedoms, FirstPostsToAPeerAreRefusedForAWhile) {
  int refusals = 0;
  constexpr int kPeers = 40;
  for (size_t i = 1; i <= kPeers; ++i) {
    RawEndpoint peer(GetParam());
    peer.Insert(a_->Name());
    const fi_addr_t address = a_->Insert(peer.Name());
    int now = 0;
    ASSERT_EQ(Insist(
                  {a_.get(), &peer},
                  [&] {
                    return fi_write(a_->endpoint.get(), a_->memory.data(), 8, a_->descriptor(),
                                    address, peer.remote(0), peer.key(), Context(0));
                  },
                  &now),
              0);
    refusals += now;
    ASSERT_LE(now, 20);
    ASSERT_TRUE(PollUntil({a_.get(), &peer}, [&] { return a_->entries.size() == i; }));
  }
  EXPECT_GT(refusals, kPeers / 4);
  EXPECT_EQ(a_->GetStatistics().calls_refused, static_cast<uint64_t>(refusals));
}

// Where the packets themselves take no time.
class Bounds : public Freedoms {};

TEST_P(Bounds, EveryOperationEndsInABoundedNumberOfPolls) {
  // README.md: three stages, and eight pieces at most, of 12 polls each; some for the packets.
  constexpr int kBound = (3 + 8) * 12 + 16;
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(WriteData(0, 256, 0, i, Context(0)), 0);
    const size_t tokens = b_->entries.size();
    const size_t completions = a_->entries.size();
    int polls = 0;
    while (a_->entries.size() == completions || b_->entries.size() == tokens) {
      a_->Poll();
      b_->Poll();
      ASSERT_LE(++polls, kBound);
    }
  }
}

TEST_P(Freedoms, EverySwitchedOffIsAPlainFabric) {
  setenv("CONTRACT_FREEDOMS", "none", 1);
  RawEndpoint a(GetParam());
  RawEndpoint b(GetParam());
  unsetenv("CONTRACT_FREEDOMS");
  const fi_addr_t to_b = a.Insert(b.Name());
  b.Insert(a.Name());
  for (uint32_t i = 1; i <= 300; ++i) {
    memcpy(a.memory.data(), &i, sizeof(i));
    ASSERT_EQ(fi_write(a.endpoint.get(), a.memory.data(), sizeof(i), a.descriptor(), to_b,
                       b.remote(0), b.key(), nullptr),
              0);
    ASSERT_TRUE(PollUntil({&a, &b}, [&] { return a.entries.size() == i; }));
    ASSERT_EQ(Word(b.memory.data()), i);
  }
  EXPECT_EQ(b.GetStatistics().writes_in_pieces, 0u);
}

INSTANTIATE_TEST_SUITE_P(Emulated, Freedoms,
                         testing::Values(kEfaFirst, kEfaSecond, kEfaDirect, kGni, kEfaOverTcp,
                                         kGniOverTcp),
                         NameOfFabric);

INSTANTIATE_TEST_SUITE_P(Emulated, Bounds, testing::Values(kEfaFirst, kEfaSecond, kEfaDirect, kGni),
                         NameOfFabric);

}  // namespace
}  // namespace contract
