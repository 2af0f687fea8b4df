#include "src/transport/reactor/peer_table.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/faults.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

using testing::HasSubstr;

class PeerTableTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    local_ = LocalFabric::Open(GetParam());
    remote_ = LocalFabric::Open(GetParam());
    ASSERT_TRUE(local_ != nullptr && remote_ != nullptr);
    table_ = std::make_unique<PeerTable>(&*local_->av, [this] { return uses_; });
  }

  const std::string& self() const { return local_->endpoint->address(); }
  const std::string& other() const { return remote_->endpoint->address(); }

  std::unique_ptr<LocalFabric> local_;
  std::unique_ptr<LocalFabric> remote_;
  PeerUses uses_;
  std::unique_ptr<PeerTable> table_;
};

TEST_P(PeerTableTest, SameAddressIsTheSamePeer) {
  const Peer* first = *table_->Insert(other());
  const Peer* second = *table_->Insert(other());
  const Peer* third = *table_->Insert(self());
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(first->address, third->address);
  EXPECT_EQ(first->references, 2u);
  EXPECT_EQ(first->epoch, 1u);
  EXPECT_EQ(table_->live(), 2u);
}

TEST_P(PeerTableTest, IdlePeerGoesWithItsLastReference) {
  const Peer* peer = *table_->Insert(other());
  ASSERT_TRUE(table_->Insert(other()).ok());
  table_->Release(peer);
  EXPECT_EQ(table_->live(), 1u);
  table_->Release(peer);
  EXPECT_EQ(table_->live(), 0u);
  EXPECT_EQ(table_->quarantined(), 0u);
}

TEST_P(PeerTableTest, BusyPeerIsQuarantinedUntilItIsIdle) {
  const Peer* peer = *table_->Insert(other());
  uses_[peer->address] = PeerUse::kOutstanding;
  table_->Release(peer);
  EXPECT_EQ(table_->live(), 0u);
  EXPECT_EQ(table_->quarantined(), 1u);
  table_->RemoveIdle();
  EXPECT_EQ(table_->quarantined(), 1u);
  uses_.clear();
  table_->RemoveIdle();
  EXPECT_EQ(table_->quarantined(), 0u);
}

TEST_P(PeerTableTest, PeerOfWrittenOffOperationsIsKeptOutOfQuarantineAndCanBeRevived) {
  const Peer* peer = *table_->Insert(other());
  const fi_addr_t address = peer->address;
  uses_[address] = PeerUse::kOutstanding;
  table_->Release(peer);
  uses_[address] = PeerUse::kQuarantined;
  table_->RemoveIdle();
  EXPECT_EQ(table_->quarantined(), 0u);
  EXPECT_EQ(table_->kept(), 1u);
  EXPECT_EQ(table_->live(), 0u);
  const Peer* revived = *table_->Insert(other());
  EXPECT_EQ(revived->address, address);
  EXPECT_EQ(revived->epoch, 2u);
  EXPECT_EQ(table_->kept(), 0u);
  EXPECT_EQ(table_->live(), 1u);
  table_->Release(revived);
  EXPECT_EQ(table_->kept(), 1u);
  // They complete after all.
  uses_.clear();
  table_->RemoveIdle();
  EXPECT_EQ(table_->kept(), 0u);
  EXPECT_EQ(table_->quarantined(), 0u);
}

TEST_P(PeerTableTest, QuarantinedPeerIsRevivedUnderANewEpoch) {
  const Peer* peer = *table_->Insert(other());
  const fi_addr_t address = peer->address;
  uses_[address] = PeerUse::kOutstanding;
  table_->Release(peer);
  const Peer* revived = *table_->Insert(other());
  EXPECT_EQ(revived->address, address);
  EXPECT_EQ(revived->epoch, 2u);
  EXPECT_EQ(revived->references, 1u);
  EXPECT_EQ(table_->live(), 1u);
  EXPECT_EQ(table_->quarantined(), 0u);
  uses_.clear();
  table_->RemoveIdle();
  EXPECT_EQ(table_->live(), 1u);
}

TEST_P(PeerTableTest, RemovingOnePeerLeavesTheOthers) {
  const Peer* leaving = *table_->Insert(other());
  const Peer* staying = *table_->Insert(self());
  const fi_addr_t address = staying->address;
  table_->Release(leaving);
  EXPECT_EQ(staying->address, address);
  EXPECT_EQ(*table_->Insert(self()), staying);
  EXPECT_TRUE(table_->Insert(other()).ok());
}

TEST_P(PeerTableTest, RefusesBytesThatCanBeNoAddressOfTheFabric) {
  for (std::string bad : {std::string(), other().substr(0, other().size() - 1)}) {
    const absl::Status status = table_->Insert(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.size() << ": " << status;
  }
  EXPECT_EQ(table_->live(), 0u);
}

TEST_P(PeerTableTest, InsertThatInsertsNothingIsAnErrorWithTheCount) {
  AddressFaults faults(local_->av->get());
  for (int result : {0, 1}) {
    faults.result = result;
    const absl::Status status = table_->Insert(other()).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("inserted " + std::to_string(result) + " of 1"));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("Success")));
  }
  faults.result = -FI_ENOMEM;
  EXPECT_EQ(table_->Insert(other()).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table_->live(), 0u);
  EXPECT_EQ(table_->quarantined(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, PeerTableTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return info.index == 0 ? "Tcp" : "Shm";
                         });

TEST(AddressVectorTest, RefusesAnAddressOfAnotherFamily) {
  auto local = LocalFabric::Open("tcp;ofi_rxm");
  ASSERT_NE(local, nullptr);
  std::string address = local->endpoint->address();
  address[0] ^= 0x40;
  const absl::Status status = local->av->Insert(address).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("address family"));
}

}  // namespace
}  // namespace invoker::transport
