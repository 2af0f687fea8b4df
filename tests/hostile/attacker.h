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
#include "src/bootstrap/messages.h"
#include "src/transport/notifier.h"
#include "src/transport/reactor.h"

namespace invoker::hostile {

class Attacker final : public transport::ReactorHandler, public transport::OperationOwner {
 public:
  // Against the endpoint of this raw address. `refused` counts what the fabric or the target
  // refused, and outlives the attacker.
  static absl::StatusOr<std::unique_ptr<Attacker>> Open(const std::string& provider,
                                                        const std::string& target,
                                                        uint64_t* refused);
  ~Attacker() override;

  // Writes to `offset` in the window, wherever that is, and rings `token`.
  void Write(const bootstrap::WindowDescriptor& window, uint64_t offset,
             absl::Span<const std::byte> bytes, uint32_t token) {
    Post(transport::GetNotifier(reactor_->profile().notification, reactor_->profile().send_order),
         window, offset, bytes, token);
  }
  // The same, and rings only once the target's side has confirmed the write. What that refuses
  // fails, or is never confirmed; otherwise a fabric may say nothing of it.
  void WriteConfirmed(const bootstrap::WindowDescriptor& window, uint64_t offset,
                      absl::Span<const std::byte> bytes, uint32_t token) {
    Post(transport::GetNotifier(transport::Notification::kSendAfterWrite,
                                transport::SendOrder::kAfterDelivery),
         window, offset, bytes, token);
  }
  // Sends a message to the receive ring.
  void Send(absl::Span<const std::byte> message);
  // Rings a doorbell and nothing else.
  void Ring(uint32_t token);

  // Whether a fabric may end the connection over what it sends, and says so. Elsewhere, where
  // processes share memory, nobody can, and a message that is longer than what is copied through
  // that memory and than the receive it meets makes its receiver copy for ever (docs/security.md,
  // "shm").
  bool connects() const { return !reactor_->profile().same_host_only; }
  size_t longest() const { return connects() ? 16 * 1024 : reactor_->profile().inject_bytes; }

  // What has neither left nor failed.
  size_t outstanding() const { return reactor_->operations().outstanding(); }

  // Until everything has left or failed, or for a good many turns.
  void Settle();

  void OnToken(uint32_t) override {}
  void OnTick(int64_t) override {}
  void OnOperationFailed(const transport::Operation&, const absl::Status&) override { ++*refused_; }

 private:
  Attacker(std::unique_ptr<transport::Reactor> reactor, uint64_t* refused)
      : reactor_(std::move(reactor)), refused_(refused) {}

  void Post(const transport::Notifier* notifier, const bootstrap::WindowDescriptor& window,
            uint64_t offset, absl::Span<const std::byte> bytes, uint32_t token);
  std::byte* NextPlace(absl::Span<const std::byte> bytes);

  // A provider may use them until their sends have completed. Outlive the endpoint.
  std::array<fi_context2, 1024> contexts_ = {};
  size_t next_context_ = 0;
  std::unique_ptr<transport::Reactor> reactor_;
  transport::MemoryRegion source_;
  const transport::Peer* peer_ = nullptr;
  uint64_t next_ = 0;  // in source_
  uint64_t* const refused_;
};

}  // namespace invoker::hostile

#endif  // INVOKER_TESTS_HOSTILE_ATTACKER_H_
