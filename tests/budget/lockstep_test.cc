// The fabric that calls are counted on: which operations complete, and whose turn it is.

#include "tests/budget/lockstep/lockstep.h"

#include <time.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/base/libfabric.h"

namespace invoker::lockstep {
namespace {

using transport::FidPtr;
using transport::InfoPtr;

constexpr uint64_t kKey = 7;
constexpr size_t kBytes = 256;

// One endpoint with its queue and a region that peers may write to.
struct Node {
  explicit Node(uint64_t bind_flags) {
    InfoPtr hints(fi_allocinfo());
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
    hints->fabric_attr->prov_name = strdup("shm");
    fi_info* raw_info = nullptr;
    EXPECT_EQ(fi_getinfo(transport::kApiVersion, nullptr, nullptr, 0, hints.get(), &raw_info), 0);
    info.reset(raw_info);
    fid_fabric* raw_fabric = nullptr;
    EXPECT_EQ(fi_fabric(info->fabric_attr, &raw_fabric, nullptr), 0);
    fabric.reset(raw_fabric);
    fid_domain* raw_domain = nullptr;
    EXPECT_EQ(fi_domain(fabric.get(), info.get(), &raw_domain, nullptr), 0);
    domain.reset(raw_domain);
    fid_mr* raw_region = nullptr;
    EXPECT_EQ(
        fi_mr_reg(domain.get(), memory, kBytes, FI_REMOTE_WRITE, 0, kKey, 0, &raw_region, nullptr),
        0);
    region.reset(raw_region);
    fi_av_attr av_attributes = {};
    fid_av* raw_av = nullptr;
    EXPECT_EQ(fi_av_open(domain.get(), &av_attributes, &raw_av, nullptr), 0);
    av.reset(raw_av);
    fi_cq_attr cq_attributes = {};
    cq_attributes.format = FI_CQ_FORMAT_DATA;
    fid_cq* raw_cq = nullptr;
    EXPECT_EQ(fi_cq_open(domain.get(), &cq_attributes, &raw_cq, nullptr), 0);
    cq.reset(raw_cq);
    fid_ep* raw_endpoint = nullptr;
    EXPECT_EQ(fi_endpoint(domain.get(), info.get(), &raw_endpoint, nullptr), 0);
    endpoint.reset(raw_endpoint);
    EXPECT_EQ(fi_ep_bind(raw_endpoint, &av->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(raw_endpoint, &cq->fid, FI_TRANSMIT | FI_RECV | bind_flags), 0);
    EXPECT_EQ(fi_enable(raw_endpoint), 0);
  }

  fi_addr_t Insert(const Node& peer) {
    char name[64] = "";
    size_t length = sizeof(name);
    EXPECT_EQ(fi_getname(&peer.endpoint->fid, name, &length), 0);
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    EXPECT_EQ(fi_av_insert(av.get(), name, 1, &address, 0, nullptr), 1);
    return address;
  }

  ssize_t WriteData(const Node& peer, fi_addr_t to, const std::string& text, uint64_t data) {
    return fi_writedata(endpoint.get(), text.data(), text.size(), nullptr, data, to, peer.base(),
                        kKey, this);
  }

  ssize_t WriteMessage(const Node& peer, fi_addr_t to, std::string text, uint64_t flags) {
    iovec local = {text.data(), text.size()};
    fi_rma_iov remote = {peer.base(), text.size(), kKey};
    fi_msg_rma message = {};
    message.msg_iov = &local;
    message.iov_count = 1;
    message.addr = to;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = this;
    message.data = 3;
    return fi_writemsg(endpoint.get(), &message, flags);
  }

  uint64_t base() const { return reinterpret_cast<uintptr_t>(memory); }

  // The flags of the next completion, or 0 if there is none.
  uint64_t Next() {
    last = {};
    const ssize_t read = fi_cq_read(cq.get(), &last, 1);
    EXPECT_TRUE(read == 1 || read == -FI_EAGAIN) << read;
    return read == 1 ? last.flags : 0;
  }

  char memory[kBytes] = "";
  fi_cq_data_entry last = {};
  InfoPtr info;
  FidPtr<fid_fabric> fabric;
  FidPtr<fid_domain> domain;
  FidPtr<fid_mr> region;
  FidPtr<fid_av> av;
  FidPtr<fid_cq> cq;
  FidPtr<fid_ep> endpoint;
};

TEST(LockstepTest, AWriteArrivesWithItsDataAndCompletes) {
  Node writer(0), target(0);
  const fi_addr_t to = writer.Insert(target);
  ASSERT_EQ(writer.WriteData(target, to, "bytes", 42), 0);
  EXPECT_STREQ(target.memory, "bytes");
  EXPECT_EQ(writer.Next(), uint64_t{FI_RMA | FI_WRITE});
  EXPECT_EQ(writer.last.op_context, &writer);
  EXPECT_EQ(target.Next(), uint64_t{FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA});
  EXPECT_EQ(target.last.data, 42u);
  EXPECT_EQ(target.Next(), 0u);
}

TEST(LockstepTest, SelectiveCompletionsComeOnlyToThoseWhoAsk) {
  Node writer(FI_SELECTIVE_COMPLETION), target(0);
  const fi_addr_t to = writer.Insert(target);
  ASSERT_EQ(writer.WriteData(target, to, "a", 1), 0);
  EXPECT_EQ(writer.Next(), 0u);
  ASSERT_EQ(writer.WriteMessage(target, to, "b", FI_REMOTE_CQ_DATA), 0);
  EXPECT_EQ(writer.Next(), 0u);
  ASSERT_EQ(writer.WriteMessage(target, to, "c", FI_REMOTE_CQ_DATA | FI_COMPLETION), 0);
  EXPECT_NE(writer.Next(), 0u);
  for (int i = 0; i < 3; ++i) EXPECT_NE(target.Next(), 0u);
}

TEST(LockstepTest, WhatIsInjectedDoesNotCompleteAndHasALimit) {
  Node writer(0), target(0);
  const fi_addr_t to = writer.Insert(target);
  EXPECT_EQ(fi_inject_writedata(writer.endpoint.get(), "x", 1, 5, to, target.base(), kKey), 0);
  EXPECT_EQ(writer.Next(), 0u);
  EXPECT_NE(target.Next(), 0u);
  const std::vector<char> large(writer.info->tx_attr->inject_size + 1);
  EXPECT_EQ(fi_inject_writedata(writer.endpoint.get(), large.data(), large.size(), 5, to,
                                target.base(), kKey),
            -FI_EMSGSIZE);
}

TEST(LockstepTest, AWriteOutsideOfARegionIsRefused) {
  Node writer(0), target(0);
  const fi_addr_t to = writer.Insert(target);
  const std::string too_long(kBytes + 1, 'l');
  EXPECT_EQ(writer.WriteData(target, to, too_long, 1), -FI_EACCES);
  EXPECT_EQ(target.Next(), 0u);
}

// Each end finds exactly its own completion and the other's message at every look: no look is in
// vain, however the threads are scheduled.
TEST(LockstepTest, EndsThatTakeTurnsNeverLookInVain) {
  constexpr int kRounds = 1000;
  Node client(0), server(0);
  const fi_addr_t to_server = client.Insert(server);
  const fi_addr_t to_client = server.Insert(client);
  int wrong = 0;
  Begin();
  std::thread answers([&] {
    while (true) {
      // Before turns are taken, and after, this polls.
      if ((server.Next() & FI_REMOTE_CQ_DATA) == 0) continue;
      if (server.last.data == 0) return;
      server.WriteData(client, to_client, "answer", server.last.data);
      if (server.Next() != (FI_RMA | FI_WRITE)) ++wrong;
    }
  });
  int wrong_here = 0;
  for (int i = 1; i <= kRounds; ++i) {
    ASSERT_EQ(client.WriteData(server, to_server, "call", i), 0);
    if (client.Next() != (FI_RMA | FI_WRITE)) ++wrong_here;
    if ((client.Next() & FI_REMOTE_CQ_DATA) == 0 || client.last.data != uint64_t(i)) ++wrong_here;
  }
  End();
  ASSERT_EQ(client.WriteData(server, to_server, "", 0), 0);
  answers.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(wrong_here, 0);
}

TEST(LockstepTest, TheClockOfThoseWhoTakeTurnsMovesByWhatItIsTold) {
  const auto now_ns = [] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  };
  Begin();
  const int64_t before = now_ns();
  const int64_t one_reading = now_ns() - before;
  AdvanceClock(1'000'000);
  const int64_t after = now_ns();
  End();
  EXPECT_GT(one_reading, 0);
  EXPECT_EQ(after - before, 2 * one_reading + 1'000'000);
}

}  // namespace
}  // namespace invoker::lockstep
