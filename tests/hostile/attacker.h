// An endpoint that says what it likes to whom it likes.
//
// One thread.

#ifndef INVOKER_TESTS_HOSTILE_ATTACKER_H_
#define INVOKER_TESTS_HOSTILE_ATTACKER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/bootstrap/messages/messages.h"
#include "src/transport/operations/notifier.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::hostile {

// What has become of what an attacker tried to send.
struct Fates {
  uint64_t refused = 0;   // by the fabric or the target
  uint64_t not_sent = 0;  // the fabric took nothing for too long
};

class Attacker final : public transport::ReactorHandler, public transport::OperationOwner {
 public:
  // Against the endpoint of this raw address. `fates` outlives the attacker.
  static absl::StatusOr<std::unique_ptr<Attacker>> Open(const std::string& provider,
                                                        const std::string& target, Fates* fates);
  ~Attacker() override;

  // Writes to `offset` in the window, wherever that is, and rings `token`. False if it gave up.
  bool Write(const bootstrap::WindowDescriptor& window, uint64_t offset,
             absl::Span<const std::byte> bytes, uint32_t token) {
    return Post(
        transport::GetNotifier(reactor_->profile().notification, reactor_->profile().send_order),
        window, offset, bytes, token);
  }
  // The same, and rings only once the target's side has confirmed the write. What that refuses
  // fails, or is never confirmed; otherwise a fabric may say nothing of it.
  void WriteConfirmed(const bootstrap::WindowDescriptor& window, uint64_t offset,
                      absl::Span<const std::byte> bytes, uint32_t token) {
    Post(
        transport::GetNotifier(Notification::kSendAfterWrite, transport::SendOrder::kAfterDelivery),
        window, offset, bytes, token);
  }
  // Writes to where it may, and waits until that is done: so there is a way, and what is refused
  // later is refused for what it is.
  absl::Status Reach(const bootstrap::WindowDescriptor& window, uint64_t offset,
                     absl::Span<const std::byte> bytes);
  // Reads from `offset` in the window, wherever that is, up to kMostRead bytes.
  void Read(const bootstrap::WindowDescriptor& window, uint64_t offset, size_t bytes);
  // How many reads have come to something, and what the last one got.
  uint64_t reads() const { return reads_; }
  absl::Span<const std::byte> last_read() const { return {sink_.data(), kMostRead}; }
  static constexpr size_t kMostRead = 4096;

  // Sends a message to the receive ring. False as Write.
  bool Send(absl::Span<const std::byte> message);
  // Rings a doorbell and nothing else.
  bool Ring(uint32_t token);

  // Whether a fabric may end the connection over what it sends, and says so. Elsewhere, where
  // processes share memory, nobody can, and a message that is longer than what is copied through
  // that memory and than the receive it meets makes its receiver copy for ever
  // (docs/design/security.md, "shm").
  bool connects() const { return !reactor_->profile().same_host_only; }
  // Whether the fabric has reads.
  bool can_read() const { return reactor_->profile().remote_reads; }
  size_t longest() const { return connects() ? 16 * 1024 : reactor_->profile().inject_bytes; }

  // What has neither left nor failed.
  size_t outstanding() const { return reactor_->operations().outstanding(); }

  // One turn.
  void Poll() { reactor_->Poll(); }
  // Until everything has left or failed, or for a good many turns.
  void Settle();

  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
  void OnOperationFailed(const transport::Operation&, const absl::Status&) override {
    ++fates_->refused;
  }
  void OnTransferDone(uint64_t tag) override { ++(tag == kReadTag ? reads_ : writes_done_); }

 private:
  static constexpr uint64_t kWriteTag = 0;
  static constexpr uint64_t kReadTag = 1;

  Attacker(std::unique_ptr<transport::Reactor> reactor, Fates* fates)
      : reactor_(std::move(reactor)), fates_(fates) {}

  bool Post(const transport::Notifier* notifier, const bootstrap::WindowDescriptor& window,
            uint64_t offset, absl::Span<const std::byte> bytes, uint32_t token);
  bool Transfer(transport::TransferDirection direction, const bootstrap::WindowDescriptor& window,
                uint64_t offset, std::byte* local, void* descriptor, size_t bytes);
  std::byte* NextPlace(absl::Span<const std::byte> bytes);

  // A provider may use them until their sends have completed. Outlive the endpoint.
  std::array<fi_context2, 1024> contexts_ = {};
  size_t next_context_ = 0;
  std::unique_ptr<transport::Reactor> reactor_;
  transport::MemoryRegion source_;
  transport::MemoryRegion sink_;  // for reads
  uint64_t reads_ = 0;
  uint64_t writes_done_ = 0;  // Reach's
  const transport::Peer* peer_ = nullptr;
  uint64_t next_ = 0;  // in source_
  Fates* const fates_;
};

}  // namespace invoker::hostile

#endif  // INVOKER_TESTS_HOSTILE_ATTACKER_H_
