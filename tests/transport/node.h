// One side of a conversation between reactors of one process: a reactor on loopback, memory to
// write from and memory to be written into, and a record of everything the reactor told.

#ifndef INVOKER_TESTS_TRANSPORT_NODE_H_
#define INVOKER_TESTS_TRANSPORT_NODE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "src/transport/reactor/reactor.h"
#include "tests/transport/immediates.h"

namespace invoker::transport {

// How a test writes: on which provider, with which notification.
struct Way {
  const char* name;
  const char* provider;
  Notification notification;
  SendOrder order;
  bool eager = false;  // whole messages inside the send, up to what the fabric's rings take

  const Notifier* notifier() const { return GetNotifier(notification, order); }
};

// Both proven providers with every notification that they can do. Where tcp;ofi_rxm cannot do
// write-with-immediate, tcp stands for it.
inline std::vector<Way> AllWays() {
  std::vector<Way> ways;
  for (const char* provider : {"tcp;ofi_rxm", "shm"}) {
    const bool tcp = provider[0] == 't';
    ways.push_back({tcp ? "TcpWriteImm" : "ShmWriteImm", WithImmediates(provider),
                    Notification::kWriteImm, SendOrder::kPipelined});
    // Only where the fabric keeps a send behind the write before it.
    if (FindRow(provider).send_order == SendOrder::kPipelined) {
      ways.push_back({tcp ? "TcpPipelined" : "ShmPipelined", provider,
                      Notification::kSendAfterWrite, SendOrder::kPipelined});
    }
    ways.push_back({tcp ? "TcpAfterDelivery" : "ShmAfterDelivery", provider,
                    Notification::kSendAfterWrite, SendOrder::kAfterDelivery});
    ways.push_back({tcp ? "TcpEager" : "ShmEager", provider, Notification::kSendAfterWrite,
                    FindRow(provider).send_order, /*eager=*/true});
  }
  return ways;
}

// For the test's output.
inline void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

inline std::string NameOfWay(const testing::TestParamInfo<Way>& info) { return info.param.name; }

inline absl::StatusOr<FabricChoice> DiscoverLoopback(const std::string& provider) {
  FabricRequest request;
  request.provider = provider;
  if (FindRow(provider).address_is_ip) request.address = "127.0.0.1";
  return Discover(request);
}

// With which every write has a completion, for tests of what becomes of those.
inline absl::StatusOr<FabricChoice> DiscoverWithCompletions(const std::string& provider) {
  absl::StatusOr<FabricChoice> choice = DiscoverLoopback(provider);
  if (choice.ok()) choice->profile.injected_is_placed = false;
  return choice;
}

class Node final : public ReactorHandler, public OperationOwner {
 public:
  struct Failure {
    uint64_t tag;
    absl::Status status;
  };

  // `bytes` of source and as many of window. Fails the test and returns nullptr if it cannot.
  static std::unique_ptr<Node> Open(const std::string& provider, size_t bytes,
                                    const ReactorOptions& options = {}) {
    return Open(DiscoverLoopback(provider), bytes, options);
  }
  static std::unique_ptr<Node> Open(absl::StatusOr<FabricChoice> choice, size_t bytes,
                                    const ReactorOptions& options = {}) {
    if (!choice.ok()) {
      ADD_FAILURE() << choice.status();
      return nullptr;
    }
    absl::StatusOr<std::unique_ptr<Reactor>> reactor = Reactor::Open(*std::move(choice), options);
    if (!reactor.ok()) {
      ADD_FAILURE() << reactor.status();
      return nullptr;
    }
    auto node = std::unique_ptr<Node>(new Node(*std::move(reactor)));
    node->window = node->NewRegion(bytes, RegionUse::kRemoteTarget);
    node->source = node->NewRegion(bytes, RegionUse::kSource);
    return node;
  }

  // Outstanding operations may be read until the endpoint has closed.
  ~Node() override {
    reactor_->Retire(std::move(window));
    reactor_->Retire(std::move(source));
  }

  MemoryRegion NewRegion(size_t bytes, RegionUse use) {
    absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    absl::StatusOr<MemoryRegion> region = reactor_->Register(*std::move(buffer), use);
    EXPECT_TRUE(region.ok()) << region.status();
    return *std::move(region);
  }

  // The way from here to a region of the peer's, which the caller gives back with
  // peers().Release(*peer).
  RemoteWindow WindowTo(const Node& target, const MemoryRegion& region,
                        const Peer** peer = nullptr) {
    absl::StatusOr<const Peer*> inserted = reactor_->peers().Insert(target.reactor_->address());
    EXPECT_TRUE(inserted.ok()) << inserted.status();
    if (peer != nullptr) *peer = *inserted;
    return {(*inserted)->address, region.remote_base(), region.size(), region.key()};
  }
  RemoteWindow WindowTo(const Node& target) { return WindowTo(target, target.window); }

  // Writes `length` bytes from the same offset of the source.
  bool Write(const Way& way, const RemoteWindow& to, uint64_t offset, uint64_t length,
             uint32_t token, uint64_t tag = 0) {
    EXPECT_TRUE(to.Contains(offset, length));
    RemoteWindow window = to;
    window.eager_bytes = way.eager ? reactor_->eager_bytes() : 0;
    return reactor_->PostWrite(way.notifier(), window, offset, source.data() + offset,
                               source.descriptor(), length, token, this, tag);
  }

  void OnToken(uint64_t token) override {
    tokens.push_back(static_cast<uint32_t>(token));
    if (on_token) on_token(static_cast<uint32_t>(token));
  }
  void OnTick(int64_t) override { ++ticks; }
  void OnOperationFailed(const Operation& operation, const absl::Status& status) override {
    failures.push_back({operation.tag, status});
    if (on_failure) on_failure(operation, status);
  }

  void OnTransferDone(uint64_t tag) override { transfers.push_back(tag); }
  void OnPostedLater() override { ++posted_later; }

  Reactor& reactor() { return *reactor_; }
  size_t outstanding() const { return reactor_->operations().outstanding(); }

  std::vector<uint32_t> tokens;
  std::vector<Failure> failures;
  std::vector<uint64_t> transfers;  // that have succeeded
  uint64_t ticks = 0;
  uint64_t posted_later = 0;
  std::function<void(uint32_t)> on_token;
  std::function<void(const Operation&, const absl::Status&)> on_failure;

 private:
  explicit Node(std::unique_ptr<Reactor> reactor) : reactor_(std::move(reactor)) {
    reactor_->set_handler(this);
  }

  std::unique_ptr<Reactor> reactor_;

 public:
  MemoryRegion window;
  MemoryRegion source;
};

// Polls the nodes in turn until `done` is true. False if that took longer than any healthy run
// does.
inline bool PollUntil(std::initializer_list<Node*> nodes, const std::function<bool()>& done) {
  constexpr int64_t kGiveUpNs = 60'000'000'000;
  const int64_t give_up = MonotonicNs() + kGiveUpNs;
  while (!done()) {
    for (Node* node : nodes) node->reactor().Poll();
    if (MonotonicNs() > give_up) return false;
  }
  return true;
}

}  // namespace invoker::transport

#endif  // INVOKER_TESTS_TRANSPORT_NODE_H_
