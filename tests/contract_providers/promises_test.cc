// What a contract promises apart from order: keys and bounds, the immediate's gate and width,
// atomics, reads, address vectors, receives, waiting, and progress.

#include <poll.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract_providers/raw_endpoint.h"

namespace contract {
namespace {

uint64_t Long(const uint8_t* at) {
  uint64_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

// Two endpoints that know each other.
struct Pair {
  explicit Pair(const Emulated& fabric, const RawEndpoint::Options& options = {})
      : a(fabric, options), b(fabric, options) {
    to_b = a.Insert(b.Name());
    to_a = b.Insert(a.Name());
  }

  ssize_t Write(size_t length, uint64_t address, uint64_t key) {
    return Insist({&a, &b}, [&] {
      return fi_write(a.endpoint.get(), a.memory.data(), length, a.descriptor(), to_b, address, key,
                      this);
    });
  }

  // The error that the next completion of a's has; 0 if it succeeds.
  int NextError() {
    const size_t seen = a.entries.size() + a.errors.size();
    const size_t errors = a.errors.size();
    EXPECT_TRUE(PollUntil({&a, &b}, [&] { return a.entries.size() + a.errors.size() > seen; }));
    return a.errors.size() > errors ? a.errors.back().err : 0;
  }

  RawEndpoint a;
  RawEndpoint b;
  fi_addr_t to_b = FI_ADDR_NOTAVAIL;
  fi_addr_t to_a = FI_ADDR_NOTAVAIL;
};

class Promises : public testing::TestWithParam<Emulated> {
 protected:
  bool is_gni() const { return GetParam().provider == std::string("gni"); }
};

TEST_P(Promises, KeyThatWasAskedForIsIgnoredAndFitsTheKeySize) {
  RawEndpoint one(GetParam());
  FidPointer<fid_mr> other = one.Register(one.memory.data(), 8, FI_REMOTE_WRITE);
  EXPECT_NE(one.key(), fi_mr_key(other.get()));
  if (one.info->domain_attr->mr_key_size == 4) {
    EXPECT_EQ(one.key() >> 32, 0u);
  }
}

TEST_P(Promises, WrongKeyOrBoundsFailAtTheInitiatorAndPlaceNothing) {
  Pair pair(GetParam());
  memset(pair.a.memory.data(), 1, 64);
  const uint64_t end = pair.b.remote(RawEndpoint::kMemory);
  const uint64_t key = pair.b.key();
  struct Try {
    size_t length;
    uint64_t address;
    uint64_t key;
  };
  for (const Try& bad :
       {Try{8, pair.b.remote(0), key + 1}, Try{8, end - 7, key}, Try{8, pair.b.remote(0) - 1, key},
        Try{0, end + 1, key}, Try{0, pair.b.remote(0), key + 1}, Try{8, UINT64_MAX - 3, key},
        Try{RawEndpoint::kMemory, pair.b.remote(1), key}}) {
    ASSERT_EQ(pair.Write(bad.length, bad.address, bad.key), 0);
    EXPECT_EQ(pair.NextError(), FI_EACCES) << bad.length << " at " << bad.address;
  }
  for (uint8_t byte : pair.b.memory) ASSERT_EQ(byte, 0);
  // The boundaries themselves.
  ASSERT_EQ(pair.Write(8, end - 8, key), 0);
  EXPECT_EQ(pair.NextError(), 0);
  ASSERT_EQ(pair.Write(0, end, key), 0);
  EXPECT_EQ(pair.NextError(), 0);
}

TEST_P(Promises, RegionGrantsWhatItWasRegisteredForOnly) {
  RawEndpoint::Options options;
  options.access = FI_SEND | FI_RECV | FI_REMOTE_READ;
  Pair pair(GetParam(), options);
  ASSERT_EQ(pair.Write(8, pair.b.remote(0), pair.b.key()), 0);
  EXPECT_EQ(pair.NextError(), FI_EACCES);
}

TEST_P(Promises, RegionCanBeReadByWhatTheCardGrants) {
  const bool first_efa = !is_gni() && GetParam().generation == std::string("1");
  struct Case {
    uint64_t access;
    bool readable;
  };
  for (const Case& region : {Case{FI_REMOTE_READ, true}, Case{FI_SEND, !is_gni()},
                             Case{FI_RECV, first_efa}, Case{FI_REMOTE_WRITE, first_efa}}) {
    Pair pair(GetParam());
    FidPointer<fid_mr> mr = pair.b.Register(pair.b.memory.data(), 64, region.access);
    pair.b.memory[0] = 9;
    ASSERT_EQ(Insist({&pair.a, &pair.b},
                     [&] {
                       return fi_read(pair.a.endpoint.get(), pair.a.memory.data(), 64,
                                      pair.a.descriptor(), pair.to_b, pair.b.remote(0),
                                      fi_mr_key(mr.get()), nullptr);
                     }),
              0);
    EXPECT_EQ(pair.NextError(), region.readable ? 0 : FI_EACCES) << region.access;
    EXPECT_EQ(pair.a.memory[0], region.readable ? 9 : 0) << region.access;
  }
}

TEST_P(Promises, ClosedRegionTakesNothingAnyMore) {
  Pair pair(GetParam());
  std::vector<uint8_t> memory(4096);
  FidPointer<fid_mr> region = pair.b.Register(memory.data(), memory.size(), FI_REMOTE_WRITE);
  const uint64_t key = fi_mr_key(region.get());
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  memset(pair.a.memory.data(), 1, 4096);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(pair.Write(4096, address, key), 0);
  region.reset();
  const std::vector<uint8_t> then = memory;
  EXPECT_TRUE(PollUntil({&pair.a, &pair.b},
                        [&] { return pair.a.entries.size() + pair.a.errors.size() == 20; }));
  for (int i = 0; i < 1000; ++i) pair.b.Poll();
  EXPECT_EQ(memory, then);
}

TEST_P(Promises, DescriptorMustBeAliveAndCoverTheBuffer) {
  Pair pair(GetParam());
  EXPECT_EQ(fi_write(pair.a.endpoint.get(), &pair, 8, pair.a.descriptor(), pair.to_b,
                     pair.b.remote(0), pair.b.key(), nullptr),
            -FI_EINVAL);
  FidPointer<fid_mr> gone = pair.a.Register(pair.a.memory.data(), 8, FI_WRITE);
  void* descriptor = fi_mr_desc(gone.get());
  gone.reset();
  EXPECT_EQ(fi_write(pair.a.endpoint.get(), pair.a.memory.data(), 8, descriptor, pair.to_b,
                     pair.b.remote(0), pair.b.key(), nullptr),
            -FI_EINVAL);
}

TEST_P(Promises, ReadFetchesWhatIsThere) {
  Pair pair(GetParam());
  for (size_t i = 0; i < 20000; ++i) pair.b.memory[i] = static_cast<uint8_t>(i * 3);
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_read(pair.a.endpoint.get(), pair.a.memory.data(), 20000,
                                    pair.a.descriptor(), pair.to_b, pair.b.remote(0), pair.b.key(),
                                    nullptr);
                   }),
            0);
  ASSERT_EQ(pair.NextError(), 0);
  EXPECT_EQ(memcmp(pair.a.memory.data(), pair.b.memory.data(), 20000), 0);
}

TEST_P(Promises, InjectedSourceMayBeReusedAtOnce) {
  Pair pair(GetParam());
  const size_t most = pair.a.info->tx_attr->inject_size;
  std::vector<uint8_t> source(most, 5);
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_inject_write(pair.a.endpoint.get(), source.data(), most, pair.to_b,
                                            pair.b.remote(0), pair.b.key());
                   }),
            0);
  std::fill(source.begin(), source.end(), 9);
  EXPECT_TRUE(
      PollUntil({&pair.a, &pair.b}, [&] { return pair.b.GetStatistics().writes_placed == 1; }));
  EXPECT_EQ(std::vector<uint8_t>(pair.b.memory.begin(), pair.b.memory.begin() + most),
            std::vector<uint8_t>(most, 5));
  EXPECT_TRUE(pair.a.entries.empty());
  EXPECT_EQ(fi_inject(pair.a.endpoint.get(), pair.a.memory.data(), most + 1, pair.to_b),
            -FI_EINVAL);
}

TEST_P(Promises, PeerReinsertedBeforeItWasMetIsReachedUnderItsNewAddress) {
  Pair pair(GetParam());
  const std::string name = pair.b.Name();
  ASSERT_EQ(fi_av_remove(pair.a.av.get(), &pair.to_b, 1, 0), 0);
  EXPECT_EQ(pair.Write(8, pair.b.remote(0), pair.b.key()), -FI_EINVAL);
  const fi_addr_t before = pair.to_b;
  pair.to_b = pair.a.Insert(name);
  EXPECT_NE(pair.to_b, before);
  ASSERT_EQ(pair.Write(8, pair.b.remote(0), pair.b.key()), 0);
  EXPECT_EQ(pair.NextError(), 0);
}

TEST_P(Promises, PeerReinsertedAfterItWasMetIsAStrangerToEfa) {
  const bool stranger =
      GetParam().provider == std::string("efa") && GetParam().fabric != std::string("efa-direct");
  Pair pair(GetParam());
  ASSERT_EQ(pair.Write(8, pair.b.remote(0), pair.b.key()), 0);
  ASSERT_EQ(pair.NextError(), 0);
  const std::string name = pair.b.Name();
  ASSERT_EQ(fi_av_remove(pair.a.av.get(), &pair.to_b, 1, 0), 0);
  pair.to_b = pair.a.Insert(name);

  for (RawEndpoint* to : {&pair.b, &pair.a}) {
    RawEndpoint& from = to == &pair.b ? pair.a : pair.b;
    ASSERT_EQ(
        fi_recv(to->endpoint.get(), to->memory.data(), 8, to->descriptor(), FI_ADDR_UNSPEC, to), 0);
    ASSERT_EQ(Insist({&pair.a, &pair.b},
                     [&] {
                       return fi_send(from.endpoint.get(), from.memory.data(), 8, from.descriptor(),
                                      to == &pair.b ? pair.to_b : pair.to_a, nullptr);
                     }),
              0);
    // The sender sees no difference.
    ASSERT_TRUE(PollUntil({&pair.a, &pair.b}, [&] {
      return from.Count(FI_SEND) == 1 &&
             to->Count(FI_RECV) + to->GetStatistics().messages_unheard == 1;
    }));
    EXPECT_EQ(to->Count(FI_RECV), stranger ? 0u : 1u);
  }
  const auto write = [&] {
    return fi_write(pair.a.endpoint.get(), pair.a.memory.data(), 8, pair.a.descriptor(), pair.to_b,
                    pair.b.remote(0), pair.b.key(), nullptr);
  };
  if (!stranger) {
    EXPECT_EQ(Insist({&pair.a, &pair.b}, write), 0);
    return;
  }
  iovec source = {pair.a.memory.data(), 8};
  void* descriptor = pair.a.descriptor();
  fi_msg message = {};
  message.msg_iov = &source;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = pair.to_b;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(write(), -FI_EAGAIN);
    ASSERT_EQ(fi_sendmsg(pair.a.endpoint.get(), &message, FI_DELIVERY_COMPLETE), -FI_EAGAIN);
    pair.a.Poll();
    pair.b.Poll();
  }
  // The peer has forgotten nothing, and still writes.
  EXPECT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_write(pair.b.endpoint.get(), pair.b.memory.data(), 8,
                                     pair.b.descriptor(), pair.to_a, pair.a.remote(0), pair.a.key(),
                                     nullptr);
                   }),
            0);
  EXPECT_TRUE(
      PollUntil({&pair.a, &pair.b}, [&] { return pair.a.GetStatistics().writes_placed == 1; }));
}

TEST_P(Promises, BytesThatAreNoAddressAreNotInserted) {
  RawEndpoint one(GetParam());
  const std::string zeros(64, '\0');
  fi_addr_t address = 0;
  EXPECT_EQ(fi_av_insert(one.av.get(), zeros.data(), 1, &address, 0, nullptr), 0);
  EXPECT_EQ(address, FI_ADDR_NOTAVAIL);
}

TEST_P(Promises, RestartedPeerDoesNotGetWhatWasMeantForItsPredecessor) {
  RawEndpoint a(GetParam());
  auto first = std::make_unique<RawEndpoint>(GetParam());
  const fi_addr_t to_first = a.Insert(first->Name());
  const uint64_t address = first->remote(0);
  const uint64_t key = first->key();
  first.reset();
  RawEndpoint second(GetParam());
  ASSERT_EQ(Insist({&a, &second},
                   [&] {
                     return fi_write(a.endpoint.get(), a.memory.data(), 8, a.descriptor(), to_first,
                                     address, key, nullptr);
                   }),
            0);
  EXPECT_TRUE(PollUntil({&a, &second}, [&] { return !a.errors.empty(); }));
  EXPECT_EQ(second.GetStatistics().writes_placed, 0u);
}

TEST_P(Promises, MessageLongerThanItsReceiveIsCutAndReported) {
  Pair pair(GetParam());
  ASSERT_EQ(fi_recv(pair.b.endpoint.get(), pair.b.memory.data(), 8, pair.b.descriptor(),
                    FI_ADDR_UNSPEC, &pair),
            0);
  memset(pair.a.memory.data(), 3, 16);
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_send(pair.a.endpoint.get(), pair.a.memory.data(), 16,
                                    pair.a.descriptor(), pair.to_b, nullptr);
                   }),
            0);
  ASSERT_TRUE(PollUntil({&pair.a, &pair.b}, [&] { return !pair.b.errors.empty(); }));
  EXPECT_EQ(pair.b.errors[0].err, FI_ETRUNC);
  EXPECT_EQ(pair.b.errors[0].olen, 8u);
  EXPECT_EQ(pair.b.memory[7], 3);
  EXPECT_EQ(pair.b.memory[8], 0);
}

TEST_P(Promises, MessageWaitsForItsReceive) {
  Pair pair(GetParam());
  memset(pair.a.memory.data(), 3, 16);
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_send(pair.a.endpoint.get(), pair.a.memory.data(), 16,
                                    pair.a.descriptor(), pair.to_b, nullptr);
                   }),
            0);
  ASSERT_EQ(pair.NextError(), 0);
  for (int i = 0; i < 100; ++i) pair.b.Poll();
  ASSERT_EQ(fi_recv(pair.b.endpoint.get(), pair.b.memory.data(), 64, pair.b.descriptor(),
                    FI_ADDR_UNSPEC, &pair),
            0);
  ASSERT_TRUE(PollUntil({&pair.a, &pair.b}, [&] { return !pair.b.entries.empty(); }));
  EXPECT_EQ(pair.b.entries[0].len, 16u);
  EXPECT_EQ(pair.b.entries[0].op_context, &pair);
}

TEST_P(Promises, CancelledReceiveIsReported) {
  if (GetParam().fabric == std::string("efa-direct")) {
    RawEndpoint one(GetParam());
    EXPECT_EQ(fi_cancel(&one.endpoint->fid, &one), -FI_ENOSYS);
    return;
  }
  RawEndpoint one(GetParam());
  ASSERT_EQ(
      fi_recv(one.endpoint.get(), one.memory.data(), 8, one.descriptor(), FI_ADDR_UNSPEC, &one), 0);
  EXPECT_EQ(fi_cancel(&one.endpoint->fid, this), -FI_ENOENT);
  EXPECT_EQ(fi_cancel(&one.endpoint->fid, &one), 0);
  one.Poll();
  ASSERT_EQ(one.errors.size(), 1u);
  EXPECT_EQ(one.errors[0].err, FI_ECANCELED);
  EXPECT_EQ(one.errors[0].op_context, &one);
}

TEST_P(Promises, RegionUnderPostedReceivesStaysOpenOnEfa) {
  RawEndpoint one(GetParam());
  ASSERT_EQ(
      fi_recv(one.endpoint.get(), one.memory.data(), 8, one.descriptor(), FI_ADDR_UNSPEC, &one), 0);
  if (is_gni()) {
    one.region.reset();
    return;
  }
  EXPECT_EQ(fi_close(&one.region->fid), -FI_EBUSY);
  EXPECT_EQ(one.GetStatistics().regions_busy, 1u);
  // And can be closed once the endpoint is.
  one.endpoint.reset();
}

INSTANTIATE_TEST_SUITE_P(Emulated, Promises,
                         testing::Values(kEfaFirst, kEfaSecond, kEfaDirect, kGni), NameOfFabric);

TEST(Immediate, LosesItsUpperHalfWhereTheQueueHasFourBytes) {
  for (const Emulated& fabric : {kEfaFirst, kEfaSecond, kEfaDirect}) {
    Pair pair(fabric);
    const uint64_t data = 0x1122334455667788;
    ASSERT_EQ(Insist({&pair.a, &pair.b},
                     [&] {
                       return fi_writedata(pair.a.endpoint.get(), pair.a.memory.data(), 8,
                                           pair.a.descriptor(), data, pair.to_b, pair.b.remote(0),
                                           pair.b.key(), nullptr);
                     }),
              0);
    ASSERT_TRUE(PollUntil({&pair.a, &pair.b}, [&] { return !pair.b.entries.empty(); }));
    const bool first = fabric.generation == std::string("1");
    EXPECT_EQ(pair.b.entries[0].data, first ? data : data & 0xffffffff) << fabric;
  }
}

TEST(Immediate, NeedsRmaEventAtBothEndsOnGni) {
  for (bool at_a : {false, true}) {
    for (bool at_b : {false, true}) {
      RawEndpoint::Options plain;
      RawEndpoint::Options event;
      event.caps |= FI_RMA_EVENT;
      RawEndpoint a(kGni, at_a ? event : plain);
      RawEndpoint b(kGni, at_b ? event : plain);
      const fi_addr_t to_b = a.Insert(b.Name());
      a.memory[0] = 1;
      ASSERT_EQ(Insist({&a, &b},
                       [&] {
                         return fi_writedata(a.endpoint.get(), a.memory.data(), 1, a.descriptor(),
                                             5, to_b, b.remote(0), b.key(), nullptr);
                       }),
                0);
      // The write itself succeeds in any case.
      ASSERT_TRUE(PollUntil({&a, &b}, [&] { return a.entries.size() == 1 && b.memory[0] == 1; }));
      for (int i = 0; i < 1000; ++i) b.Poll();
      EXPECT_EQ(b.entries.size(), at_a && at_b ? 1u : 0u);
    }
  }
}

TEST(DirectFabric, WriteFromAnUnknownInitiatorFails) {
  RawEndpoint a(kEfaDirect);
  RawEndpoint b(kEfaDirect);
  const fi_addr_t to_b = a.Insert(b.Name());
  const auto write = [&] {
    return Insist({&a, &b}, [&] {
      return fi_write(a.endpoint.get(), a.memory.data(), 8, a.descriptor(), to_b, b.remote(0),
                      b.key(), nullptr);
    });
  };
  ASSERT_EQ(write(), 0);
  ASSERT_TRUE(PollUntil({&a, &b}, [&] { return !a.errors.empty(); }));
  EXPECT_EQ(a.errors[0].err, FI_EHOSTUNREACH);
  b.Insert(a.Name());
  ASSERT_EQ(write(), 0);
  EXPECT_TRUE(PollUntil({&a, &b}, [&] { return a.entries.size() == 1; }));
}

TEST(DirectFabric, LocalBufferNeedsADescriptor) {
  Pair pair(kEfaDirect);
  EXPECT_EQ(fi_send(pair.a.endpoint.get(), pair.a.memory.data(), 64, nullptr, pair.to_b, nullptr),
            -FI_EINVAL);
}

class Atomics : public testing::TestWithParam<Emulated> {
 protected:
  static RawEndpoint::Options WithAtomics() {
    RawEndpoint::Options options;
    options.caps |= FI_ATOMIC;
    return options;
  }
};

TEST_P(Atomics, SumsOfSeveralPeersAddUp) {
  RawEndpoint target(GetParam(), WithAtomics());
  RawEndpoint one(GetParam(), WithAtomics());
  RawEndpoint two(GetParam(), WithAtomics());
  const std::string name = target.Name();
  const fi_addr_t from_one = one.Insert(name);
  const fi_addr_t from_two = two.Insert(name);
  const uint64_t addend = 3;
  const auto add = [&](RawEndpoint* from, fi_addr_t to) {
    return Insist({&target, &one, &two}, [&] {
      return fi_atomic(from->endpoint.get(), &addend, 1, nullptr, to, target.remote(8),
                       target.key(), FI_UINT64, FI_SUM, nullptr);
    });
  };
  constexpr int kAdds = 500;
  for (int i = 0; i < kAdds; ++i) {
    ASSERT_EQ(add(&one, from_one), 0);
    ASSERT_EQ(add(&two, from_two), 0);
  }
  ASSERT_TRUE(PollUntil({&target, &one, &two}, [&] {
    return one.entries.size() == kAdds && two.entries.size() == kAdds;
  }));
  EXPECT_EQ(Long(target.memory.data() + 8), 2 * kAdds * addend);
  EXPECT_EQ(Long(target.memory.data()), 0u);
}

TEST_P(Atomics, FetchAndCompareTellWhatWasThere) {
  Pair pair(GetParam(), WithAtomics());
  uint64_t result = 0;
  uint64_t operand = 7;
  const uint64_t comparand = 7;
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_fetch_atomic(pair.a.endpoint.get(), &operand, 1, nullptr, &result,
                                            nullptr, pair.to_b, pair.b.remote(0), pair.b.key(),
                                            FI_UINT64, FI_SUM, nullptr);
                   }),
            0);
  ASSERT_EQ(pair.NextError(), 0);
  EXPECT_EQ(result, 0u);
  operand = 100;
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_compare_atomic(pair.a.endpoint.get(), &operand, 1, nullptr,
                                              &comparand, nullptr, &result, nullptr, pair.to_b,
                                              pair.b.remote(0), pair.b.key(), FI_UINT64, FI_CSWAP,
                                              nullptr);
                   }),
            0);
  ASSERT_EQ(pair.NextError(), 0);
  EXPECT_EQ(result, 7u);
  EXPECT_EQ(Long(pair.b.memory.data()), 100u);
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_fetch_atomic(pair.a.endpoint.get(), nullptr, 1, nullptr, &result,
                                            nullptr, pair.to_b, pair.b.remote(0), pair.b.key(),
                                            FI_UINT64, FI_ATOMIC_READ, nullptr);
                   }),
            0);
  ASSERT_EQ(pair.NextError(), 0);
  EXPECT_EQ(result, 100u);
}

TEST_P(Atomics, WrongKeyFailsAndChangesNothing) {
  Pair pair(GetParam(), WithAtomics());
  const uint64_t addend = 1;
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_atomic(pair.a.endpoint.get(), &addend, 1, nullptr, pair.to_b,
                                      pair.b.remote(0), pair.b.key() + 1, FI_UINT64, FI_SUM,
                                      nullptr);
                   }),
            0);
  EXPECT_EQ(pair.NextError(), FI_EACCES);
  EXPECT_EQ(Long(pair.b.memory.data()), 0u);
}

// Software executes it, so the registration counts, and the card's own grant does not.
TEST_P(Atomics, FetchNeedsARegionThatWasRegisteredForReads) {
  Pair pair(GetParam(), WithAtomics());
  FidPointer<fid_mr> region =
      pair.b.Register(pair.b.memory.data(), 8, FI_SEND | FI_RECV | FI_REMOTE_WRITE);
  const uint64_t addend = 1;
  uint64_t result = 0;
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_fetch_atomic(pair.a.endpoint.get(), &addend, 1, nullptr, &result,
                                            nullptr, pair.to_b, pair.b.remote(0),
                                            fi_mr_key(region.get()), FI_UINT64, FI_SUM, nullptr);
                   }),
            0);
  EXPECT_EQ(pair.NextError(), FI_EACCES);
}

TEST_P(Atomics, GrantsAreThoseOfTheTables) {
  RawEndpoint one(GetParam(), WithAtomics());
  const bool gni = GetParam().provider == std::string("gni");
  size_t count = 0;
  fi_atomic_attr attributes = {};
  EXPECT_EQ(fi_atomicvalid(one.endpoint.get(), FI_UINT64, FI_SUM, &count), 0);
  EXPECT_EQ(gni, count == 1);
  EXPECT_EQ(fi_query_atomic(one.domain.get(), FI_UINT64, FI_SUM, &attributes, 0), 0);
  EXPECT_EQ(attributes.count, count);
  EXPECT_EQ(attributes.size, sizeof(uint64_t));
  const int odd = gni ? -FI_EOPNOTSUPP : 0;
  EXPECT_EQ(fi_atomicvalid(one.endpoint.get(), FI_UINT8, FI_SUM, &count), odd);
  EXPECT_EQ(fi_atomicvalid(one.endpoint.get(), FI_DOUBLE, FI_SUM, &count), odd);
  EXPECT_EQ(fi_atomicvalid(one.endpoint.get(), FI_UINT64, FI_PROD, &count), odd);
  EXPECT_EQ(fi_atomicvalid(one.endpoint.get(), FI_UINT64, FI_CSWAP, &count), -FI_EOPNOTSUPP);
  EXPECT_EQ(fi_compare_atomicvalid(one.endpoint.get(), FI_UINT64, FI_CSWAP, &count), 0);
}

INSTANTIATE_TEST_SUITE_P(Emulated, Atomics, testing::Values(kEfaFirst, kEfaSecond, kGni),
                         NameOfFabric);

int OpenQueue(const RawEndpoint& endpoint, enum fi_wait_obj wait, FidPointer<fid_cq>* cq) {
  fi_cq_attr attributes = {};
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = wait;
  fid_cq* raw = nullptr;
  const int code = fi_cq_open(endpoint.domain.get(), &attributes, &raw, nullptr);
  cq->reset(raw);
  return code;
}

TEST(Wait, ObjectsAreTakenOrRefusedAsTheContractHasIt) {
  FidPointer<fid_cq> cq;
  RawEndpoint first(kEfaFirst);
  EXPECT_EQ(OpenQueue(first, FI_WAIT_UNSPEC, &cq), -FI_ENOSYS);
  EXPECT_EQ(OpenQueue(first, FI_WAIT_FD, &cq), -FI_ENOSYS);
  RawEndpoint second(kEfaSecond);
  EXPECT_EQ(OpenQueue(second, FI_WAIT_UNSPEC, &cq), 0);
  EXPECT_EQ(OpenQueue(second, FI_WAIT_FD, &cq), -FI_ENOSYS);
  RawEndpoint gni(kGni);
  EXPECT_EQ(OpenQueue(gni, FI_WAIT_UNSPEC, &cq), 0);
  EXPECT_EQ(OpenQueue(gni, FI_WAIT_FD, &cq), -FI_EINVAL);
  fid* object = &gni.cq->fid;
  EXPECT_EQ(fi_trywait(gni.fabric.get(), &object, 1), -FI_ENOSYS);
  fi_cq_data_entry entry;
  EXPECT_EQ(fi_cq_sread(gni.cq.get(), &entry, 1, nullptr, 0), -FI_ENOSYS);
}

TEST(Wait, BlockingReadReturnsWithTheImmediateOrWithoutOne) {
  RawEndpoint::Options options;
  options.wait = FI_WAIT_UNSPEC;
  options.caps |= FI_RMA_EVENT;
  Pair pair(kGni, options);
  fi_cq_data_entry entry = {};
  EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, 5), -FI_EAGAIN);
  ASSERT_EQ(fi_cq_signal(pair.b.cq.get()), 0);
  EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, -1), -FI_EAGAIN);
  ASSERT_EQ(Insist({&pair.a, &pair.b},
                   [&] {
                     return fi_writedata(pair.a.endpoint.get(), pair.a.memory.data(), 8,
                                         pair.a.descriptor(), 5, pair.to_b, pair.b.remote(0),
                                         pair.b.key(), nullptr);
                   }),
            0);
  std::atomic<bool> stop{false};
  std::thread initiator([&] {
    while (!stop) pair.a.Poll();
  });
  if (pair.b.entries.empty()) {
    EXPECT_EQ(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, -1), 1);
    EXPECT_EQ(entry.data, 5u);
  }
  stop = true;
  initiator.join();
}

TEST(Wait, DescriptorWakesASleeper) {
  RawEndpoint::Options options;
  options.wait = FI_WAIT_FD;
  Pair pair(kEfaDirect, options);
  int fd = -1;
  ASSERT_EQ(fi_control(&pair.b.cq->fid, FI_GETWAIT, &fd), 0);
  fid* object = &pair.b.cq->fid;
  ASSERT_EQ(fi_trywait(pair.b.fabric.get(), &object, 1), 0);
  pollfd waits = {fd, POLLIN, 0};
  EXPECT_EQ(poll(&waits, 1, 0), 0);
  ASSERT_EQ(Insist({&pair.a},
                   [&] {
                     return fi_writedata(pair.a.endpoint.get(), pair.a.memory.data(), 8,
                                         pair.a.descriptor(), 5, pair.to_b, pair.b.remote(0),
                                         pair.b.key(), nullptr);
                   }),
            0);
  EXPECT_EQ(poll(&waits, 1, 20000), 1);
  EXPECT_EQ(fi_trywait(pair.b.fabric.get(), &object, 1), -FI_EAGAIN);
  pair.b.Poll();
  EXPECT_EQ(pair.b.entries.size(), 1u);
}

TEST(Progress, AutomaticOnePlacesAWriteThoughTheTargetNeverPolls) {
  RawEndpoint::Options options;
  options.progress = FI_PROGRESS_AUTO;
  Pair pair(kGni, options);
  ASSERT_EQ(pair.a.info->domain_attr->data_progress, FI_PROGRESS_AUTO);
  const uint64_t value = 42;
  memcpy(pair.a.memory.data(), &value, sizeof(value));
  ASSERT_EQ(Insist({&pair.a},
                   [&] {
                     return DeliveryWrite(pair.a.endpoint.get(), pair.a.memory.data(),
                                          pair.a.descriptor(), 8, pair.to_b, pair.b.remote(0),
                                          pair.b.key(), nullptr);
                   }),
            0);
  while (pair.a.entries.empty() && pair.a.errors.empty()) pair.a.Poll();
  EXPECT_EQ(pair.b.GetStatistics().writes_placed, 1u);
  EXPECT_EQ(Long(pair.b.memory.data()), value);
}

TEST(Progress, ManualOneDoesNothingUntilTheTargetPolls) {
  Pair pair(kEfaFirst);
  ASSERT_EQ(Insist({&pair.a},
                   [&] {
                     return fi_write(pair.a.endpoint.get(), pair.a.memory.data(), 8,
                                     pair.a.descriptor(), pair.to_b, pair.b.remote(0), pair.b.key(),
                                     nullptr);
                   }),
            0);
  for (int i = 0; i < 10000; ++i) pair.a.Poll();
  EXPECT_TRUE(pair.a.entries.empty());
  EXPECT_EQ(pair.b.GetStatistics().writes_placed, 0u);
  EXPECT_EQ(pair.NextError(), 0);
}

TEST(Objects, OneEndpointPerAddressVectorInTheFirstGenerationOfEfa) {
  for (const Emulated& fabric : {kEfaFirst, kEfaSecond}) {
    RawEndpoint one(fabric);
    fid_ep* raw = nullptr;
    ASSERT_EQ(fi_endpoint(one.domain.get(), one.info.get(), &raw, nullptr), 0);
    FidPointer<fid_ep> other(raw);
    const bool first = fabric.generation == std::string("1");
    EXPECT_EQ(fi_ep_bind(raw, &one.av->fid, 0), first ? -FI_ENOSYS : 0);
  }
}

TEST(Objects, ParentsCloseAfterTheirChildren) {
  RawEndpoint one(kGni);
  EXPECT_EQ(fi_close(&one.domain->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&one.fabric->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&one.cq->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&one.av->fid), -FI_EBUSY);
}

TEST(Objects, WhatIsNotServedSaysSo) {
  RawEndpoint one(kEfaFirst);
  fid_cntr* counter = nullptr;
  fi_cntr_attr attributes = {};
  EXPECT_EQ(fi_cntr_open(one.domain.get(), &attributes, &counter, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_tsend(one.endpoint.get(), &one, 1, nullptr, 0, 0, nullptr), -FI_ENOSYS);
  size_t value = 0;
  size_t length = sizeof(value);
  EXPECT_EQ(fi_getopt(&one.endpoint->fid, FI_OPT_ENDPOINT, 12345, &value, &length),
            -FI_ENOPROTOOPT);
}

}  // namespace
}  // namespace contract
