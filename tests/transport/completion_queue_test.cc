// The wait object that a queue really gets, and what ends a sleep in it.

#include "src/transport/fabric/completion_queue.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "tests/transport/faults.h"
#include "tests/transport/in_libfabric.h"
#include "tests/transport/local_fabric.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

absl::StatusOr<FabricChoice> ChoiceWaitedFor(const std::string& provider, WaitMethod wait) {
  absl::StatusOr<FabricChoice> choice = DiscoverLoopback(provider);
  if (choice.ok()) choice->profile.wait = wait;
  return choice;
}

// In place of a domain's fi_cq_open: refuses wait objects, or takes a call away from the queues
// that have one.
class QueueFaults {
 public:
  enum class Fault { kNone, kRefuseWaitObjects, kRefuseEverything, kNoSread, kNoSignal };

  QueueFaults(fid_domain* domain, Fault fault) : fault_(fault), domain_(&domain->ops, this) {
    domain_.ours().cq_open = &Open;
  }

 private:
  using DomainOps = ReplacedOps<fi_ops_domain, QueueFaults>;

  static int Open(fid_domain* domain, fi_cq_attr* attributes, fid_cq** cq, void* context) {
    QueueFaults& self = DomainOps::From(domain->ops);
    const bool waits = attributes->wait_obj != FI_WAIT_NONE;
    if (self.fault_ == Fault::kRefuseEverything) return -FI_ENOMEM;
    if (self.fault_ == Fault::kRefuseWaitObjects && waits) return -FI_ENOSYS;
    const int code = self.domain_.provider().cq_open(domain, attributes, cq, context);
    if (code != 0) return code;
    if (!waits) return 0;
    self.queue_ = *(*cq)->ops;
    if (self.fault_ == Fault::kNoSread) self.queue_.sread = &NoSread;
    if (self.fault_ == Fault::kNoSignal) self.queue_.signal = &NoSignal;
    (*cq)->ops = &self.queue_;
    return 0;
  }

  static ssize_t NoSread(fid_cq*, void*, size_t, const void*, int) { return -FI_ENOSYS; }
  static int NoSignal(fid_cq*) { return -FI_ENOSYS; }

  Fault fault_;
  fi_ops_cq queue_ = {};
  DomainOps domain_;
};

using Fault = QueueFaults::Fault;

TEST(CompletionQueue, ProviderWithoutTheWaitObjectIsPolledInstead) {
  for (const auto& [provider, wait] :
       {std::pair{"shm", WaitMethod::kFd}, std::pair{"udp;ofi_rxd", WaitMethod::kFd}}) {
    auto node = Node::Open(ChoiceWaitedFor(provider, wait), 4096);
    auto peer = Node::Open(provider, 4096);
    ASSERT_NE(node, nullptr);
    ASSERT_NE(peer, nullptr);
    EXPECT_EQ(node->reactor().wait_method(), WaitMethod::kBackoff) << provider;
    EXPECT_EQ(node->reactor().completion_queue().file_descriptor(), -1);
    // And it works.
    const Way way = {"", "", Notification::kWriteImm, SendOrder::kAfterDelivery};
    ASSERT_TRUE(peer->Write(way, peer->WindowTo(*node), 0, 64, 7));
    while (node->tokens.empty()) {
      peer->reactor().Poll();
      node->reactor().Wait(absl::InfiniteDuration());
      node->reactor().Poll();
    }
    ASSERT_TRUE(PollUntil({node.get(), peer.get()}, [&] { return peer->outstanding() == 0; }));
  }
}

TEST(CompletionQueue, RefusedWaitObjectNarrowsToTheBackOff) {
  for (const char* provider : ThoseInLibfabric<const char*>({"tcp;ofi_rxm", "net", "tcp"})) {
    auto local = LocalFabric::Open(provider);
    ASSERT_NE(local, nullptr);
    QueueFaults faults(local->domain->get(), Fault::kRefuseWaitObjects);
    const absl::StatusOr<CompletionQueue> queue =
        CompletionQueue::Open(*local->fabric, *local->domain, 64);
    ASSERT_TRUE(queue.ok()) << queue.status();
    EXPECT_EQ(queue->wait_method(), WaitMethod::kBackoff);
  }
}

TEST(CompletionQueue, MissingSreadNarrowsToTheBackOff) {
  auto local = LocalFabric::Open("udp;ofi_rxd");
  ASSERT_NE(local, nullptr);
  QueueFaults faults(local->domain->get(), Fault::kNoSread);
  const absl::StatusOr<CompletionQueue> queue =
      CompletionQueue::Open(*local->fabric, *local->domain, 64);
  ASSERT_TRUE(queue.ok()) << queue.status();
  EXPECT_EQ(queue->wait_method(), WaitMethod::kBackoff);
}

TEST(CompletionQueue, WithoutASignalItIsKnownThatThereIsNone) {
  auto local = LocalFabric::Open("udp;ofi_rxd");
  ASSERT_NE(local, nullptr);
  EXPECT_TRUE(local->cq->can_signal());
  QueueFaults faults(local->domain->get(), Fault::kNoSignal);
  const absl::StatusOr<CompletionQueue> queue =
      CompletionQueue::Open(*local->fabric, *local->domain, 64);
  ASSERT_TRUE(queue.ok()) << queue.status();
  EXPECT_EQ(queue->wait_method(), WaitMethod::kSread);
  EXPECT_FALSE(queue->can_signal());
}

TEST(CompletionQueue, WhatHasNothingToDoWithWaitingIsAnError) {
  auto local = LocalFabric::Open("tcp;ofi_rxm");
  ASSERT_NE(local, nullptr);
  QueueFaults faults(local->domain->get(), Fault::kRefuseEverything);
  const absl::Status status = CompletionQueue::Open(*local->fabric, *local->domain, 64).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("fi_cq_open"), absl::string_view::npos) << status;
}

TEST(CompletionQueue, SignalEndsTheNextSleep) {
  for (const char* provider : ThoseInLibfabric<const char*>({"net", "udp;ofi_rxd"})) {
    auto local = LocalFabric::Open(provider);
    ASSERT_NE(local, nullptr);
    ASSERT_EQ(local->cq->wait_method(), WaitMethod::kSread);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(local->cq->Signal());
      // Without the signal, this would not return in time for the test's own limit.
      local->cq->Sleep(3'600'000);
    }
  }
}

// The entry that ended a sleep is read once, before those that came after it, by whichever thread
// drives; until then nobody sleeps.
TEST(CompletionQueue, EntryThatEndedASleepIsKeptForTheNextRead) {
  for (const char* provider : ThoseInLibfabric<const char*>({"net", "udp;ofi_rxd"})) {
    auto node = Node::Open(provider, 4096);
    auto peer = Node::Open(provider, 4096);
    ASSERT_NE(node, nullptr);
    ASSERT_NE(peer, nullptr);
    const Way way = {"", "", Notification::kWriteImm, SendOrder::kAfterDelivery};
    const RemoteWindow window = peer->WindowTo(*node);
    ASSERT_TRUE(peer->Write(way, window, 0, 64, 1));
    ASSERT_TRUE(PollUntil({node.get(), peer.get()},
                          [&] { return node->tokens.size() == 1 && peer->outstanding() == 0; }));
    for (uint32_t token = 2; token <= 50; ++token) {
      ASSERT_TRUE(peer->Write(way, window, 0, 64, token));
      for (int i = 0; i < 100; ++i) peer->reactor().Poll();
      if (node->reactor().Arm()) {
        std::thread([&] {
          node->reactor().Sleep(absl::Milliseconds(10));
          node->reactor().Sleep(absl::Milliseconds(10));
        }).join();
      }
      node->reactor().Disarm();
      ASSERT_TRUE(PollUntil({node.get(), peer.get()}, [&] {
        return node->tokens.back() == token && peer->outstanding() == 0;
      }));
      ASSERT_EQ(node->tokens.size(), token);
    }
  }
}

}  // namespace
}  // namespace invoker::transport
