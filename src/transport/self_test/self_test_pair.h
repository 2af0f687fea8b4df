// The two endpoints of a self-test, and one message at a time between them. One thread.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PAIR_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PAIR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {

// One endpoint with memory to write from and memory to be written into.
class SelfTestSide final : public ReactorHandler, public OperationOwner {
 public:
  static absl::StatusOr<std::unique_ptr<SelfTestSide>> Open(const FabricRequest& request);
  // Safe whatever is still under way.
  ~SelfTestSide() override;

  // Learns the other's address and window.
  absl::Status Meet(const SelfTestSide& other);

  // Whether send-after-write may carry small payloads in the send, as sessions do.
  void set_eager(bool eager) { remote_.eager_bytes = eager ? reactor_->eager_bytes() : 0; }

  // Up to which length what is not injected whole goes in pieces.
  void set_pieces_up_to(uint64_t bytes) { remote_.pieces_up_to = bytes; }

  // A notified write between equal offsets. False if every slot is taken.
  bool Post(const Notifier* notifier, uint64_t offset, uint64_t length, uint32_t token);

  void OnToken(uint64_t token) override;
  void OnTick(int64_t) override {}
  void OnOperationFailed(const Operation& operation, const absl::Status& status) override;

  Reactor& reactor() { return *reactor_; }
  const MemoryRegion& window() const { return window_; }
  const MemoryRegion& source() const { return source_; }
  const RemoteWindow& remote() const { return remote_; }
  const absl::Status& failure() const { return failure_; }
  // Nothing of ours is under way.
  bool idle() const { return reactor_->operations().outstanding() == 0; }

  // What has been sent from here, and what has come here: a fabric may only be closed in peace once
  // the two agree. A caller that sends or receives behind the reactor's back counts here too.
  uint64_t sent = 0;
  uint64_t received = 0;
  bool quiet = true;  // whether to close the endpoint in peace

  // Called from OnToken; empty: tokens are only counted.
  std::function<void(uint32_t)> on_token;

 private:
  SelfTestSide() = default;

  std::unique_ptr<Reactor> reactor_;
  MemoryRegion window_;
  MemoryRegion source_;
  const Peer* peer_ = nullptr;
  RemoteWindow remote_;
  absl::Status failure_;  // the first
};

class SelfTestPair {
 public:
  // Bytes of each window.
  static constexpr size_t kWindowBytes = 256 * 1024;

  static absl::StatusOr<std::unique_ptr<SelfTestPair>> Open(const FabricRequest& request);
  ~SelfTestPair();

  SelfTestSide& side(int index) { return *sides_[index]; }

  // What has gone wrong on either side.
  absl::Status Failure() const;

  // Polls both until `done`, a failure, or the deadline (MonotonicNs). Whether it is done.
  bool PollUntil(const std::function<bool()>& done, int64_t deadline_ns);

  // How long to wait for a token. A message of which nothing has arrived may be on its way on a
  // slow machine; once all bytes are there, the token is either there or lost.
  struct Patience {
    int64_t deadline_ns;     // MonotonicNs
    int64_t after_bytes_ns;  // from when the bytes were seen
  };

  // One message from side `from` to the other, checked when its token arrives. DATA_LOSS: the token
  // came before the bytes. DEADLINE_EXCEEDED: it did not come.
  absl::Status Cross(int from, const Notifier* notifier, uint64_t offset, uint64_t length,
                     const Patience& patience);

  // Waits for everything that is under way to end.
  bool Drain(int64_t deadline_ns);

  void set_eager(bool eager) {
    for (auto& side : sides_) side->set_eager(eager);
  }

  const Profile& profile() { return sides_[0]->reactor().profile(); }
  uint32_t NextToken() { return ++last_token_; }

 private:
  SelfTestPair() = default;

  std::unique_ptr<SelfTestSide> sides_[2];
  uint32_t last_token_ = 0x5e1f0000;
};

// The byte at `position` of the message that has this token; never 0.
std::byte SelfTestByte(uint32_t token, size_t position);
// Fills, and compares.
void FillWithPattern(std::byte* memory, size_t length, uint32_t token);
bool HasPattern(const std::byte* memory, size_t length, uint32_t token);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_SELF_TEST_PAIR_H_
