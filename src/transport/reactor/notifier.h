// "The bytes are there, and the peer knows": one write into a peer's window, and a 32-bit token
// that reaches the peer after it. Where immediates have 8 bytes the token may have 64 bits.
//
// Two ways to do it, chosen once per session, with the same interface and token, so that nothing
// above knows which. With send-after-write, a few bytes go inside the send itself, which the peer's
// reactor puts in their place: half the price, and the order of writes and sends does not matter.
// With write-with-immediate, a message that is somewhat longer than what the provider injects goes
// in pieces that are injected, where the fabric keeps writes in order (Profile::may_send_pieces).
// Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_NOTIFIER_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_NOTIFIER_H_

#include <cstdint>

#include "src/transport/provider/provider_profile.h"
#include "src/transport/reactor/operation_pool.h"

namespace invoker::transport {

// The immediate of a piece that is not the last: nothing to look at yet. No token is like it; cut
// to 32 bits it is a token of a reserved kind.
inline constexpr uint64_t kPieceData = ~uint64_t{0};

// What became of one attempt to post.
enum class PostResult : uint8_t {
  kPosted,  // everything that can be posted now has been
  kAgain,   // the provider wants a completion to be read first; the operation's step says where to
            // go on
  kFailed,  // `error` says why; nothing more will be posted
  kOver,    // there is nothing more to post: the transfer is over, and its owner wants to know
};

// What a post's return code means. `error` is set with kFailed.
PostResult JudgePost(ssize_t code, int* error);

class Notifier {
 public:
  virtual ~Notifier() = default;

  // Whether it posts nothing but one write with immediate, which Reactor::PostWrite then makes
  // itself: what most calls on most fabrics take, without a call through this interface.
  bool is_write_imm() const { return is_write_imm_; }

  // Posts the operation's current step and moves it on. `error` is set to the negative fi_errno
  // with kFailed.
  virtual PostResult Post(fid_ep* endpoint, Operation* operation, int* error) const = 0;

  // For messages: "a write".
  virtual const char* what() const { return "a write"; }

  // Whether a completion of the operation calls for another Post.
  static bool HasNextStep(const Operation& operation) {
    return operation.step == Operation::Step::kSend;
  }

 protected:
  explicit Notifier(bool is_write_imm = false) : is_write_imm_(is_write_imm) {}

 private:
  const bool is_write_imm_;
};

// The notifier for a session on a fabric of this profile. `notification` must not be kAuto.
// Notifiers have no state of their own and live for ever. The order is the profile's, or
// kAfterDelivery, which is right on every fabric.
const Notifier* GetNotifier(Notification notification, SendOrder order);

// Sends the check (ring_message.h) that lies in the operation's staging. Lives for ever.
const Notifier* GetCheckSender();

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_NOTIFIER_H_
