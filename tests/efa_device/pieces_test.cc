// The pieces of the card that need neither threads nor a provider.

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/efa_device/address_handles.h"
#include "tests/efa_device/attributes.h"
#include "tests/efa_device/completion_queue.h"
#include "tests/efa_device/faults.h"
#include "tests/efa_device/frame.h"
#include "tests/efa_device/memory_table.h"
#include "tests/efa_device/queue_pair.h"
#include "tests/efa_device/shuffler.h"
#include "tests/efa_device/subnet.h"

namespace efa_device {
namespace {

TEST(Attributes, GenerationsGainCapabilities) {
  Attributes attributes;
  ASSERT_TRUE(AttributesOf("efa0", &attributes));
  EXPECT_FALSE(attributes.has(kCapRdmaRead));
  EXPECT_EQ(attributes.max_rdma_size, 0u);
  ASSERT_TRUE(AttributesOf("efa1", &attributes));
  EXPECT_TRUE(attributes.has(kCapRdmaRead));
  EXPECT_FALSE(attributes.has(kCapRdmaWrite));
  ASSERT_TRUE(AttributesOf("efa3", &attributes));
  EXPECT_TRUE(attributes.has(kCapRdmaWrite | kCapUnsolicitedWriteReceive));
  EXPECT_FALSE(AttributesOf("efa4", &attributes));
}

TEST(Frame, IsDecodedAsItWasEncoded) {
  Frame frame;
  frame.kind = FrameKind::kWrite;
  frame.has_immediate = true;
  frame.source_gid = Gid{1, 2, 3};
  frame.source_qpn = 4;
  frame.qkey = 6;
  frame.immediate = 7;
  frame.number = 8;
  frame.rkey = 9;
  frame.address = 10;
  frame.total = 11;
  frame.payload = "payload";
  const std::string bytes = Encode(frame);
  Frame decoded;
  ASSERT_TRUE(Decode(bytes.data(), bytes.size(), &decoded));
  EXPECT_EQ(Encode(decoded), bytes);
  EXPECT_EQ(decoded.payload, "payload");
}

TEST(Frame, RefusesOtherBytes) {
  const std::string bytes = Encode(Frame());
  Frame decoded;
  EXPECT_FALSE(Decode(bytes.data(), bytes.size() - 1, &decoded));
  for (const size_t position : {0, 4, 5, 6, 7}) {
    std::string wrong = bytes;
    wrong[position] = '\xff';
    EXPECT_FALSE(Decode(wrong.data(), wrong.size(), &decoded)) << position;
  }
}

TEST(MemoryTable, GrantsOnlyTheRangeTheDomainAndTheAccess) {
  MemoryTable table;
  const int domain = 0;
  const int other = 0;
  const uint32_t key = table.Add(&domain, 1000, 100, IBV_ACCESS_REMOTE_READ);
  EXPECT_TRUE(table.Grants(&domain, key, 1000, 100, IBV_ACCESS_REMOTE_READ));
  EXPECT_FALSE(table.Grants(&domain, key, 1001, 100, IBV_ACCESS_REMOTE_READ));
  EXPECT_FALSE(table.Grants(&domain, key, 999, 1, IBV_ACCESS_REMOTE_READ));
  EXPECT_FALSE(table.Grants(&domain, key, 1050, std::numeric_limits<uint64_t>::max(), 0));
  EXPECT_FALSE(table.Grants(&domain, key, 1000, 1, IBV_ACCESS_REMOTE_WRITE));
  EXPECT_FALSE(table.Grants(&other, key, 1000, 1, 0));
  EXPECT_TRUE(table.Remove(key));
  EXPECT_FALSE(table.Grants(&domain, key, 1000, 1, 0));
  EXPECT_NE(table.Add(&domain, 1000, 100, 0), key);
}

TEST(MemoryTable, MemoryThatIsNotMappedIsAnError) {
  char byte;
  EXPECT_FALSE(MemoryTable::CopyOut(&byte, 16, 1));
  EXPECT_FALSE(MemoryTable::CopyIn(16, &byte, 1));
}

TEST(AddressHandles, OneGidHasOneNumber) {
  AddressHandles handles(2);
  const Gid first = {1};
  const Gid second = {2};
  uint16_t one;
  uint16_t number;
  ASSERT_TRUE(handles.Acquire(first, &one));
  ASSERT_TRUE(handles.Acquire(first, &number));
  EXPECT_EQ(number, one);
  ASSERT_TRUE(handles.Acquire(second, &number));
  EXPECT_NE(number, one);
  EXPECT_FALSE(handles.Acquire(Gid{3}, &number));
  handles.Release(first);
  EXPECT_EQ(handles.Find(first), one);
  handles.Release(first);
  EXPECT_EQ(handles.Find(first), AddressHandles::kUnknown);
}

TEST(Faults, RepeatWithTheSeed) {
  std::string error;
  const auto decisions = [&error](const std::string& text) {
    const std::unique_ptr<Faults> faults = Faults::Parse(text, &error);
    Faults::Stream stream(faults.get(), 1);
    std::vector<bool> decided;
    for (int i = 0; i < 1000; ++i) decided.push_back(stream.Strikes(Fault::kReorder));
    return decided;
  };
  EXPECT_EQ(decisions("seed=7,reorder=300"), decisions("seed=7,reorder=300"));
  EXPECT_NE(decisions("seed=7,reorder=300"), decisions("seed=8,reorder=300"));
  EXPECT_EQ(decisions("reorder=1000"), std::vector<bool>(1000, true));
  EXPECT_EQ(decisions(""), std::vector<bool>(1000, false));
}

TEST(Faults, StopWhenTheBudgetIsSpent) {
  std::string error;
  const std::unique_ptr<Faults> faults = Faults::Parse("rnr=1000/2", &error);
  Faults::Stream one(faults.get(), 1);
  Faults::Stream two(faults.get(), 2);
  EXPECT_TRUE(one.Strikes(Fault::kNotReady));
  EXPECT_TRUE(two.Strikes(Fault::kNotReady));
  EXPECT_FALSE(one.Strikes(Fault::kNotReady));
}

TEST(Faults, RefuseAWrongText) {
  std::string error;
  for (const char* text : {"nonsense=1", "reorder", "reorder=x", "reorder=1001", "rnr=1/"}) {
    EXPECT_EQ(Faults::Parse(text, &error), nullptr) << text;
    EXPECT_FALSE(error.empty());
  }
}

TEST(Shuffler, ReordersAndLosesNothing) {
  std::string error;
  const std::unique_ptr<Faults> faults = Faults::Parse("reorder=300,delay=50", &error);
  Shuffler shuffler(Faults::Stream(faults.get(), 1));
  const Shuffler::Time now;
  std::vector<std::string> sent;
  std::vector<std::string> ready;
  for (int i = 0; i < 500; ++i) {
    sent.push_back(std::to_string(i));
    shuffler.Offer(sent.back(), now, &ready);
  }
  shuffler.TakeDue(now + faults->delay(), &ready);
  EXPECT_TRUE(shuffler.empty());
  EXPECT_NE(ready, sent);
  EXPECT_TRUE(std::is_permutation(ready.begin(), ready.end(), sent.begin(), sent.end()));
}

class SubnetTest : public testing::Test {
 protected:
  SubnetTest() : subnet_(Subnet::Open(mkdtemp(directory_))) {}
  ~SubnetTest() override {
    const std::string host = std::string(directory_) + "/" + ToHex(gid_);
    rmdir(host.c_str());
    unlink((std::string(directory_) + "/lock").c_str());
    EXPECT_EQ(rmdir(directory_), 0);
  }
  char directory_[32] = "/tmp/efa_subnet.XXXXXX";
  const Gid gid_ = {1, 2};
  std::unique_ptr<Subnet> subnet_;
};

TEST_F(SubnetTest, ReachesALiveQueuePairOnly) {
  EXPECT_EQ(subnet_->Connect(gid_, 1), -ENETUNREACH);
  uint32_t qpn = 0;
  const int listener = subnet_->Listen(gid_, 10, &qpn);
  ASSERT_GE(listener, 0);
  const int connection = subnet_->Connect(gid_, qpn);
  EXPECT_GE(connection, 0);
  EXPECT_EQ(subnet_->Connect(gid_, qpn + 1), -ECONNREFUSED);
  close(connection);
  close(listener);
  EXPECT_EQ(subnet_->Connect(gid_, qpn), -ECONNREFUSED);
  subnet_->Remove(gid_, qpn);
}

TEST_F(SubnetTest, RemovesWhatAKilledOwnerLeft) {
  uint32_t dead = 0;
  uint32_t alive = 0;
  close(subnet_->Listen(gid_, 10, &dead));
  const int listener = subnet_->Listen(gid_, 10, &alive);
  EXPECT_NE(dead, alive);
  subnet_->RemoveStale();
  const std::string host = std::string(directory_) + "/" + ToHex(gid_) + "/";
  EXPECT_NE(access((host + std::to_string(dead)).c_str(), F_OK), 0);
  EXPECT_EQ(access((host + std::to_string(alive)).c_str(), F_OK), 0);
  close(listener);
  subnet_->Remove(gid_, alive);
}

// Two queue pairs, with a link that the test moves frames over.
class QueuePairTest : public testing::Test, private Link {
 protected:
  QueuePairTest() : handles_(8) {
    std::string error;
    faults_ = Faults::Parse("", &error);
    AttributesOf("efa3", &attributes_);
    key_ = memory_.Add(this, Address(0), sizeof(bytes_),
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    one_ = Make(1);
    two_ = Make(2);
  }

  std::unique_ptr<QueuePair> Make(uint32_t qpn, bool unsolicited = false) {
    QueuePair::Options options;
    options.qpn = qpn;
    options.domain = this;
    options.attributes = &attributes_;
    options.memory = &memory_;
    options.handles = &handles_;
    options.send_queue = &queue_;
    options.receive_queue = &queue_;
    options.max_sends = 4;
    options.max_receives = 4;
    options.max_send_sge = 2;
    options.max_receive_sge = 2;
    options.unsolicited = unsolicited;
    auto pair = std::make_unique<QueuePair>(options, Faults::Stream(faults_.get(), qpn),
                                            static_cast<Link*>(this));
    ibv_qp_attr state = {};
    state.port_num = 1;
    state.qkey = 100 + qpn;
    state.qp_state = IBV_QPS_INIT;
    EXPECT_EQ(pair->Modify(state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    state.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(pair->Modify(state, IBV_QP_STATE), 0);
    state.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(pair->Modify(state, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return pair;
  }

  uint64_t Address(size_t offset) { return reinterpret_cast<uint64_t>(bytes_ + offset); }

  WorkRequest Work(WorkRequest::Operation operation, uint32_t length) {
    WorkRequest work;
    work.id = 1;
    work.operation = operation;
    work.peer.qpn = 2;
    work.qkey = 102;
    work.rkey = key_;
    work.remote_address = Address(200000);
    work.buffers = {ibv_sge{Address(0), length, key_}};
    return work;
  }

  int Post(const WorkRequest& work) { return one_->PostSends({work}); }

  // Delivers every request and every answer.
  void Deliver() {
    while (!frames_.empty()) {
      const Frame request = std::move(frames_.front());
      frames_.erase(frames_.begin());
      Frame answer;
      if (two_->HandleRequest(request, &answer)) one_->HandleAnswer(answer);
    }
  }

  Status Ended() {
    Completion completion;
    EXPECT_TRUE(queue_.Pop(&completion));
    return completion.status;
  }
  bool Nothing() {
    Completion completion;
    return !queue_.Pop(&completion);
  }

  Attributes attributes_;
  MemoryTable memory_;
  AddressHandles handles_;
  CompletionQueue queue_{64, nullptr, nullptr};
  std::unique_ptr<Faults> faults_;
  std::unique_ptr<QueuePair> one_;
  std::unique_ptr<QueuePair> two_;
  std::vector<Frame> frames_;
  std::vector<uint64_t> retries_;
  uint32_t key_;
  char bytes_[400000] = {};

 private:
  Status Transmit(QueuePair*, const Peer&, const Frame& frame) override {
    frames_.push_back(frame);
    return Status::kOk;
  }
  void RetransmitAfter(std::chrono::microseconds, QueuePair*, uint64_t number) override {
    retries_.push_back(number);
  }
};

TEST_F(QueuePairTest, SendEndsWhenItIsAnswered) {
  ASSERT_EQ(two_->PostReceive(ReceiveRequest{5, {ibv_sge{Address(1000), 100, key_}}}), 0);
  bytes_[0] = 'x';
  ASSERT_EQ(Post(Work(WorkRequest::Operation::kSend, 10)), 0);
  EXPECT_TRUE(Nothing());
  Deliver();
  EXPECT_EQ(bytes_[1000], 'x');
  EXPECT_EQ(Ended(), Status::kOk);  // the receive
  EXPECT_EQ(Ended(), Status::kOk);
}

TEST_F(QueuePairTest, SendIsRetriedUntilTheReceiverIsReady) {
  ASSERT_EQ(Post(Work(WorkRequest::Operation::kSend, 10)), 0);
  Deliver();
  ASSERT_EQ(retries_.size(), 1u);
  ASSERT_EQ(two_->PostReceive(ReceiveRequest{5, {ibv_sge{Address(1000), 100, key_}}}), 0);
  one_->Retransmit(retries_[0]);
  Deliver();
  EXPECT_EQ(Ended(), Status::kOk);
  EXPECT_EQ(Ended(), Status::kOk);
}

TEST_F(QueuePairTest, RetriesEnd) {
  ASSERT_EQ(Post(Work(WorkRequest::Operation::kSend, 10)), 0);
  for (int i = 0; i < 3; ++i) {
    Deliver();
    ASSERT_EQ(retries_.size(), i + 1u);
    one_->Retransmit(retries_.back());
  }
  Deliver();
  EXPECT_EQ(Ended(), Status::kReceiverNotReady);
}

TEST_F(QueuePairTest, ReadsInAnyOrder) {
  for (size_t i = 0; i < 100000; ++i) bytes_[200000 + i] = static_cast<char>(i * 7 >> 3);
  ASSERT_EQ(Post(Work(WorkRequest::Operation::kRead, 100000)), 0);
  ASSERT_EQ(frames_.size(), 4u);
  std::reverse(frames_.begin(), frames_.end());
  Deliver();
  EXPECT_EQ(Ended(), Status::kOk);
  EXPECT_EQ(std::string(bytes_, 100000), std::string(bytes_ + 200000, 100000));
}

TEST_F(QueuePairTest, ImmediateComesAfterAllData) {
  WorkRequest work = Work(WorkRequest::Operation::kWrite, 100000);
  work.has_immediate = true;
  ASSERT_EQ(two_->PostReceive(ReceiveRequest{5, {}}), 0);
  ASSERT_EQ(Post(work), 0);
  EXPECT_EQ(frames_.size(), 3u);  // the fourth waits
  std::reverse(frames_.begin(), frames_.end());
  Deliver();
  Completion completion;
  ASSERT_TRUE(queue_.Pop(&completion));
  EXPECT_EQ(completion.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(completion.bytes, 100000u);
  EXPECT_EQ(Ended(), Status::kOk);
}

TEST_F(QueuePairTest, WrongKeyQkeyAndLengthAreErrors) {
  WorkRequest work = Work(WorkRequest::Operation::kRead, 10);
  work.rkey = key_ + 1;
  ASSERT_EQ(Post(work), 0);
  Deliver();
  EXPECT_EQ(Ended(), Status::kBadRemoteAddress);
  work = Work(WorkRequest::Operation::kSend, 10);
  work.qkey = 1;
  ASSERT_EQ(Post(work), 0);
  Deliver();
  EXPECT_EQ(Ended(), Status::kBadDestinationQueuePair);
  ASSERT_EQ(Post(Work(WorkRequest::Operation::kSend, attributes_.mtu + 1)), 0);
  EXPECT_EQ(Ended(), Status::kBadLocalLength);
}

TEST_F(QueuePairTest, FullQueueRefuses) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Post(Work(WorkRequest::Operation::kSend, 1)), 0);
  EXPECT_EQ(Post(Work(WorkRequest::Operation::kSend, 1)), ENOMEM);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(two_->PostReceive(ReceiveRequest()), 0);
  EXPECT_EQ(two_->PostReceive(ReceiveRequest()), ENOMEM);
}

// rdma-core, too, counts a request as completed only when the user polls its completion.
TEST_F(QueuePairTest, SlotIsFreeWhenItsCompletionIsTaken) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(two_->PostReceive(ReceiveRequest{5, {ibv_sge{Address(1000), 100, key_}}}), 0);
    ASSERT_EQ(Post(Work(WorkRequest::Operation::kSend, 1)), 0);
  }
  Deliver();
  EXPECT_EQ(Post(Work(WorkRequest::Operation::kSend, 1)), ENOMEM);
  EXPECT_EQ(two_->PostReceive(ReceiveRequest()), ENOMEM);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Ended(), Status::kOk);
  EXPECT_EQ(Post(Work(WorkRequest::Operation::kSend, 1)), 0);
  EXPECT_EQ(two_->PostReceive(ReceiveRequest()), 0);
}

TEST_F(QueuePairTest, UnsolicitedImmediateConsumesNoReceive) {
  two_ = Make(2, true);
  WorkRequest work = Work(WorkRequest::Operation::kWrite, 10);
  work.has_immediate = true;
  ASSERT_EQ(Post(work), 0);
  Deliver();
  Completion completion;
  ASSERT_TRUE(queue_.Pop(&completion));
  EXPECT_EQ(completion.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_TRUE(completion.unsolicited);
  EXPECT_EQ(Ended(), Status::kOk);
}

TEST_F(QueuePairTest, InlineDataHasALimitAndIsForSendsOnly) {
  WorkRequest work = Work(WorkRequest::Operation::kSend, 0);
  work.is_inline = true;
  work.inline_data.assign(attributes_.max_inline + 1, 'x');
  EXPECT_EQ(Post(work), EINVAL);
  work.inline_data.pop_back();
  EXPECT_EQ(Post(work), 0);
  work.operation = WorkRequest::Operation::kWrite;
  EXPECT_EQ(Post(work), EINVAL);
}

TEST_F(QueuePairTest, WriteOfNoBytesNeedsAKey) {
  WorkRequest work = Work(WorkRequest::Operation::kWrite, 0);
  work.rkey = key_ + 1;
  ASSERT_EQ(Post(work), 0);
  Deliver();
  EXPECT_EQ(Ended(), Status::kBadRemoteAddress);
}

TEST_F(QueuePairTest, LostPeerAndErrorStateEndEverything) {
  ASSERT_EQ(Post(Work(WorkRequest::Operation::kSend, 10)), 0);
  Peer peer;
  peer.qpn = 2;
  one_->PeerLost(peer);
  EXPECT_EQ(Ended(), Status::kBadDestinationQueuePair);
  ASSERT_EQ(Post(Work(WorkRequest::Operation::kRead, 100000)), 0);
  ibv_qp_attr state = {};
  state.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(one_->Modify(state, IBV_QP_STATE), 0);
  EXPECT_EQ(Ended(), Status::kFlushed);
  EXPECT_TRUE(Nothing());
  EXPECT_EQ(Post(Work(WorkRequest::Operation::kSend, 1)), EINVAL);
}

}  // namespace
}  // namespace efa_device
