// The card as a verbs program sees it, without libfabric: its provider never waits for events, and
// Debian 12's never writes by RDMA. Both queue pairs are in this process.

#include <endian.h>
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "tests/efa_device/status.h"

namespace efa_device {
namespace {

constexpr uint32_t kQkey = 0x11;
constexpr int kTimeoutMs = 20'000;
constexpr uint64_t kSendOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr uint64_t kWriteOperations =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

class VerbsTest : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context_ = ibv_open_device(devices[0]);
    ibv_free_device_list(devices);
    ASSERT_NE(context_, nullptr);
    domain_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    ASSERT_NE(channel_, nullptr);
    queue_ = ibv_create_cq(context_, 16, this, channel_, 0);
    ASSERT_NE(queue_, nullptr);
    region_ = ibv_reg_mr(domain_, memory_.data(), memory_.size(),
                         IBV_ACCESS_LOCAL_WRITE | (CanWrite() ? IBV_ACCESS_REMOTE_WRITE : 0));
    ASSERT_NE(region_, nullptr) << strerror(errno);
  }

  void TearDown() override {
    if (pair_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(pair_), 0);
    }
    if (handle_ != nullptr) {
      EXPECT_EQ(ibv_destroy_ah(handle_), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(region_), 0);
    EXPECT_EQ(ibv_destroy_cq(queue_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    EXPECT_EQ(ibv_dealloc_pd(domain_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  static bool CanWrite() {
    const char* generation = getenv("INVOKER_EFA_DEVICE_GENERATION");
    return generation != nullptr && std::string(generation) >= "efa2";
  }

  // An address handle for this host; null and errno if the card refuses it.
  ibv_ah* CreateHandle() {
    ibv_ah_attr attributes = {};
    attributes.port_num = 1;
    attributes.is_global = 1;
    EXPECT_EQ(ibv_query_gid(context_, 1, 0, &attributes.grh.dgid), 0);
    return ibv_create_ah(domain_, &attributes);
  }

  // An SRD queue pair that is ready; null and errno if the card refuses it.
  ibv_qp* Create(uint64_t operations) {
    if (handle_ == nullptr) handle_ = CreateHandle();
    if (handle_ == nullptr) return nullptr;
    ibv_qp_init_attr_ex attributes = {};
    attributes.qp_type = IBV_QPT_DRIVER;
    attributes.send_cq = queue_;
    attributes.recv_cq = queue_;
    attributes.cap.max_send_wr = 4;
    attributes.cap.max_recv_wr = 4;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.pd = domain_;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.send_ops_flags = operations;
    efadv_qp_init_attr efa = {};
    efa.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD;
    ibv_qp* pair = efadv_create_qp_ex(context_, &attributes, &efa, sizeof(efa));
    if (pair == nullptr) return nullptr;
    ibv_qp_attr state = {};
    state.qp_state = IBV_QPS_INIT;
    state.port_num = 1;
    state.qkey = kQkey;
    EXPECT_EQ(
        ibv_modify_qp(pair, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
        0);
    state.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(pair, &state, IBV_QP_STATE), 0);
    state.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(pair, &state, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return pair;
  }

  int TryReceive(uint64_t id) {
    ibv_sge piece = {reinterpret_cast<uint64_t>(memory_.data() + 64), 64, region_->lkey};
    ibv_recv_wr request = {};
    request.wr_id = id;
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* bad;
    return ibv_post_recv(pair_, &request, &bad);
  }
  void PostReceive(uint64_t id) { ASSERT_EQ(TryReceive(id), 0); }

  // Posts the request that `start` begins: `length` bytes from the start of the memory, to itself.
  int TryPost(uint64_t id, uint32_t length, const std::function<void(ibv_qp_ex*)>& start) {
    ibv_qp_ex* extended = ibv_qp_to_qp_ex(pair_);
    ibv_wr_start(extended);
    extended->wr_id = id;
    extended->wr_flags = IBV_SEND_SIGNALED;
    start(extended);
    ibv_wr_set_sge(extended, region_->lkey, reinterpret_cast<uint64_t>(memory_.data()), length);
    ibv_wr_set_ud_addr(extended, handle_, pair_->qp_num, kQkey);
    return ibv_wr_complete(extended);
  }
  void Post(uint64_t id, uint32_t length, const std::function<void(ibv_qp_ex*)>& start) {
    ASSERT_EQ(TryPost(id, length, start), 0);
  }

  // Sleeps until the channel has an event.
  void AwaitEvent() {
    pollfd event = {channel_->fd, POLLIN, 0};
    ASSERT_EQ(poll(&event, 1, kTimeoutMs), 1) << "no event";
    ibv_cq* queue;
    void* owner;
    ASSERT_EQ(ibv_get_cq_event(channel_, &queue, &owner), 0);
    EXPECT_EQ(queue, queue_);
    EXPECT_EQ(owner, this);
    ibv_ack_cq_events(queue, 1);
  }

  bool HasEvent() {
    pollfd event = {channel_->fd, POLLIN, 0};
    return poll(&event, 1, 0) == 1;
  }

  // The next entry, which an event announces if the queue is empty now.
  ibv_wc Await() {
    ibv_wc entry = {};
    while (true) {
      EXPECT_EQ(ibv_req_notify_cq(queue_, 0), 0);
      // An entry may have come before the request.
      if (ibv_poll_cq(queue_, 1, &entry) == 1) return entry;
      AwaitEvent();
      if (HasFatalFailure()) return entry;
    }
  }

  // Both ends of one operation, in either order: the receive has id 1, the request id 2.
  void AwaitBoth(ibv_wc* received, ibv_wc* sent) {
    const ibv_wc first = Await();
    const ibv_wc second = Await();
    ASSERT_EQ(first.wr_id + second.wr_id, 3u);
    *received = first.wr_id == 1 ? first : second;
    *sent = first.wr_id == 1 ? second : first;
  }

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_ah* handle_ = nullptr;
  ibv_qp* pair_ = nullptr;
  std::array<char, 128> memory_ = {};
};

TEST_F(VerbsTest, EventAnnouncesACompletion) {
  pair_ = Create(kSendOperations);
  ASSERT_NE(pair_, nullptr) << strerror(errno);
  memcpy(memory_.data(), "hello", 5);
  PostReceive(1);
  Post(2, 5, [](ibv_qp_ex* pair) { ibv_wr_send_imm(pair, htobe32(7)); });
  ibv_wc received, sent;
  AwaitBoth(&received, &sent);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.byte_len, 5u);
  EXPECT_EQ(received.imm_data, htobe32(7));
  EXPECT_EQ(std::string(&memory_[64], 5), "hello");
}

TEST_F(VerbsTest, NoEventUnlessItIsAskedFor) {
  pair_ = Create(kSendOperations);
  ASSERT_NE(pair_, nullptr) << strerror(errno);
  PostReceive(1);
  Post(2, 5, ibv_wr_send);
  ibv_wc entry;
  for (int taken = 0; taken < 2;) taken += ibv_poll_cq(queue_, 1, &entry);
  EXPECT_FALSE(HasEvent());
  // One event for each request, however many entries come.
  ASSERT_EQ(ibv_req_notify_cq(queue_, 0), 0);
  PostReceive(1);
  Post(2, 5, ibv_wr_send);
  AwaitEvent();
  for (int taken = 0; taken < 2;) taken += ibv_poll_cq(queue_, 1, &entry);
  EXPECT_FALSE(HasEvent());
}

TEST_F(VerbsTest, WritesIfTheGenerationCan) {
  pair_ = Create(kSendOperations | kWriteOperations);
  if (!CanWrite()) {
    EXPECT_EQ(pair_, nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    return;
  }
  ASSERT_NE(pair_, nullptr) << strerror(errno);
  memcpy(memory_.data(), "write", 5);
  PostReceive(1);
  const auto write = [this](ibv_qp_ex* pair) {
    ibv_wr_rdma_write_imm(pair, region_->rkey, reinterpret_cast<uint64_t>(&memory_[100]),
                          htobe32(9));
  };
  Post(2, 5, write);
  ibv_wc received, sent;
  AwaitBoth(&received, &sent);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.imm_data, htobe32(9));
  EXPECT_EQ(std::string(&memory_[100], 5), "write");
}

TEST_F(VerbsTest, WriteBeyondTheRegionIsRefused) {
  if (!CanWrite()) GTEST_SKIP() << "the card cannot write";
  pair_ = Create(kSendOperations | kWriteOperations);
  ASSERT_NE(pair_, nullptr) << strerror(errno);
  Post(2, 29, [this](ibv_qp_ex* pair) {
    ibv_wr_rdma_write(pair, region_->rkey, reinterpret_cast<uint64_t>(&memory_[100]));
  });
  const ibv_wc sent = Await();
  EXPECT_EQ(sent.wr_id, 2u);
  EXPECT_EQ(sent.vendor_err, static_cast<uint32_t>(Status::kBadRemoteAddress));
}

// Needs INVOKER_EFA_DEVICE_FAULTS=address_handle=1000/1,send_full=1000/1,receive_full=1000/1.
TEST_F(VerbsTest, FaultRefusesOnce) {
  const char* faults = getenv("INVOKER_EFA_DEVICE_FAULTS");
  if (faults == nullptr || std::string(faults).find("send_full") == std::string::npos) {
    GTEST_SKIP() << "without faults";
  }
  EXPECT_EQ(CreateHandle(), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  pair_ = Create(kSendOperations);
  ASSERT_NE(pair_, nullptr) << strerror(errno);
  EXPECT_EQ(TryReceive(1), ENOMEM);
  PostReceive(1);
  EXPECT_EQ(TryPost(2, 5, ibv_wr_send), ENOMEM);
  Post(2, 5, ibv_wr_send);
  ibv_wc received, sent;
  AwaitBoth(&received, &sent);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace efa_device
