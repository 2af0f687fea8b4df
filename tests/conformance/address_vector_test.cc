// Peers are inserted, removed, and inserted again after they were restarted.

#include "gtest/gtest.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::Node;
using transport::Peer;
using transport::PollUntil;
using transport::RemoteWindow;
using transport::Way;

class AddressVector : public FabricSuite {
 protected:
  void SetUp() override {
    FabricSuite::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    way_ = PreferredWay();
    node_ = OpenNode(kPeerBytes);
    ASSERT_NE(node_, nullptr);
  }

  // Until the address vector has let go of every peer that was released.
  bool Forget() {
    return PollUntil({node_.get()}, [&] { return node_->reactor().peers().quarantined() == 0; });
  }

  Way way_ = {};
  std::unique_ptr<Node> node_;
};

TEST_F(AddressVector, AnAddressOfTheWrongLengthIsRefused) {
  const std::string address = node_->reactor().address();
  // A string that goes on behind its end is another address for the same peer.
  const std::vector<std::string> wrong = {"", address.substr(0, address.size() - 1),
                                          address + address};
  for (const std::string& raw : wrong) {
    const auto inserted = node_->reactor().peers().Insert(raw);
    EXPECT_EQ(inserted.status().code(), absl::StatusCode::kInvalidArgument)
        << raw.size() << " bytes: " << inserted.status();
  }
  EXPECT_EQ(node_->reactor().peers().live(), 0u);
}

TEST_F(AddressVector, OneAddressIsOnePeer) {
  const auto other = OpenNode(4096);
  ASSERT_NE(other, nullptr);
  const Peer* first = nullptr;
  const Peer* second = nullptr;
  node_->WindowTo(*other, other->window, &first);
  node_->WindowTo(*other, other->window, &second);
  EXPECT_EQ(first, second);
  node_->reactor().peers().Release(first);
  EXPECT_EQ(node_->reactor().peers().live(), 1u);
  node_->reactor().peers().Release(second);
  EXPECT_EQ(node_->reactor().peers().live(), 0u);
}

TEST_F(AddressVector, APeerThatWasRemovedCanBeInsertedAgain) {
  const auto peer = PeerProcess::Start(node_.get(), way_);
  ASSERT_NE(peer, nullptr);
  for (uint32_t round = 1; round <= 4; ++round) {
    ASSERT_TRUE(peer->RoundTrip(round)) << "round " << round;
    ASSERT_TRUE(PollUntil({node_.get()}, [&] { return node_->outstanding() == 0; }));
    peer->Release();
    ASSERT_TRUE(Forget());
    ASSERT_TRUE(peer->Insert());
  }
  ASSERT_TRUE(peer->RoundTrip(5));
  EXPECT_EQ(peer->End(), 0) << peer->log();
}

TEST_F(AddressVector, APeerThatWasRestartedIsReachedAtItsNewAddress) {
  for (uint32_t round = 1; round <= 3; ++round) {
    const auto peer = PeerProcess::Start(node_.get(), way_);
    ASSERT_NE(peer, nullptr);
    ASSERT_TRUE(peer->RoundTrip(round)) << "round " << round;
    // In both ways in which a process can go.
    if (round % 2 == 0) {
      EXPECT_EQ(peer->End(), 0) << peer->log();
    } else {
      peer->Kill();
    }
    node_->reactor().RetireAllOf(node_.get());
    peer->Release();
    ASSERT_TRUE(Forget());
  }
  EXPECT_TRUE(node_->reactor().health().ok()) << node_->reactor().health();
}

TEST_F(AddressVector, APeerThatWasRestartedIsReachedAtItsOldAddress) {
  if (!Tested().profile.address_is_ip) {
    GTEST_SKIP() << "an endpoint cannot choose its address on this fabric";
  }
  std::string address;
  // By another program, between two rounds.
  int taken = 0;
  for (uint32_t round = 1; round <= 3; ++round) {
    const auto peer = PeerProcess::Start(node_.get(), way_, address);
    if (peer == nullptr && !HasFailure() && ++taken < 5) {
      address.clear();
      round = 0;
      continue;
    }
    ASSERT_NE(peer, nullptr);
    if (!address.empty()) {
      EXPECT_EQ(peer->address(), address);
    }
    address = peer->address();
    ASSERT_TRUE(peer->RoundTrip(round)) << "round " << round;
    peer->Kill();
    node_->reactor().RetireAllOf(node_.get());
    peer->Release();
    ASSERT_TRUE(Forget());
  }
}

TEST_F(AddressVector, ManyPeersAreReachedEachAtItsOwn) {
  const uint32_t count = 16;
  std::vector<std::unique_ptr<Node>> spokes;
  for (uint32_t i = 0; i < count; ++i) {
    spokes.push_back(OpenNode(4096));
    ASSERT_NE(spokes.back(), nullptr);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const RemoteWindow window = node_->WindowTo(*spokes[i]);
    Stamp(node_->source.data(), 256, i);
    ASSERT_TRUE(node_->Write(way_, window, 0, 256, i));
    ASSERT_TRUE(PollUntil({node_.get(), spokes[i].get()},
                          [&] { return !spokes[i]->tokens.empty() && node_->outstanding() == 0; }))
        << "peer " << i;
    EXPECT_EQ(spokes[i]->tokens, std::vector<uint32_t>{i});
    EXPECT_EQ(FirstDifference(spokes[i]->window.data(), 256, i), 256u);
  }
  EXPECT_EQ(node_->reactor().peers().live(), count);
}

// The address has the right form, but is no endpoint's any more.
TEST_F(AddressVector, AnAddressOfNobodyHarmsNobody) {
  const auto gone = PeerProcess::Start(node_.get(), way_);
  ASSERT_NE(gone, nullptr);
  gone->Release();
  gone->Kill();
  ASSERT_TRUE(Forget());
  const auto inserted = node_->reactor().peers().Insert(gone->address());
  if (inserted.ok()) {
    const RemoteWindow window = {(*inserted)->address, gone->window().base, kPeerBytes,
                                 gone->window().key};
    node_->Write(way_, window, 0, 64, 1);
    for (int i = 0; i < 1000; ++i) node_->reactor().Poll();
  }
  const auto peer = PeerProcess::Start(node_.get(), way_);
  ASSERT_NE(peer, nullptr);
  node_->failures.clear();
  for (uint32_t message = 1; message <= 3; ++message) {
    node_->tokens.clear();
    Stamp(node_->source.data(), 64, message);
    ASSERT_TRUE(node_->Write(way_, peer->window(), 0, 64, message, message));
    ASSERT_TRUE(PollUntil({node_.get()}, [&] { return !node_->tokens.empty(); })) << peer->log();
    EXPECT_EQ(node_->tokens.back(), message);
  }
  for (const Node::Failure& failure : node_->failures) EXPECT_EQ(failure.tag, 0u);
  EXPECT_TRUE(node_->reactor().health().ok()) << node_->reactor().health();
}

}  // namespace
}  // namespace invoker::conformance
