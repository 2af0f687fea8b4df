// "The bytes are there, and the peer knows": one write into a peer's window, and a 32-bit token
// that reaches the peer after it. Where immediates have 8 bytes the token may have 64 bits.
//
// A session chooses one of two ways when it opens. Both have the same interface and token, so that
// no code above knows which one it uses:
// - Write-with-immediate. PostWriteImm is the only function that posts one. A message somewhat
//   longer than the provider injects goes in injected pieces, where the fabric keeps writes in
//   order (Profile::may_send_pieces).
// - Send-after-write. A few bytes go inside the send itself, and the peer's reactor puts them in
//   their place. That costs half as much, and the order of writes and sends does not matter.
// Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_OPERATIONS_NOTIFIER_H_
#define INVOKER_SRC_TRANSPORT_OPERATIONS_NOTIFIER_H_

#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "src/transport/fabric/remote_window.h"
#include "src/transport/operations/operation_pool.h"
#include "src/transport/provider/provider_profile.h"

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

// Posts one write with immediate. Without a `context` it is injected: the provider has copied the
// source when this returns, and reports no completion. Returns 0 or a negative fi_errno.
inline ssize_t PostWriteImm(fid_ep* endpoint, const void* source, uint64_t length, void* descriptor,
                            uint64_t token, fi_addr_t peer, uint64_t address, uint64_t key,
                            void* context) {
  if (context == nullptr) {
    return fi_inject_writedata(endpoint, source, length, token, peer, address, key);
  }
  return fi_writedata(endpoint, source, length, descriptor, token, peer, address, key, context);
}

// A write into a peer's window, and the token that the peer gets after it.
struct NotifiedWrite {
  uint64_t offset = 0;  // in the window
  const void* source = nullptr;
  void* descriptor = nullptr;  // the source's
  uint64_t length = 0;         // bytes
  uint64_t token = 0;
  uint64_t tag = 0;  // the owner's
  OperationOwner* owner = nullptr;
};

// What an endpoint takes of writes with immediate.
struct ImmediateLimits {
  uint64_t inject_bytes = 0;  // 1 to so many are injected, and placed in order
  uint32_t piece_bytes = 0;   // at most so many are one piece; 0: nothing goes in pieces
};

class Notifier {
 public:
  virtual ~Notifier() = default;

  // Whether a write of this length is injected: it takes no operation.
  bool Injects(uint64_t length, const ImmediateLimits& limits) const {
    return is_write_imm_ && length - 1 < limits.inject_bytes;
  }

  // The first post of a write whose operation has just been acquired, if it is one write with
  // immediate, as for most calls on most fabrics: posted here and not through the interface. False:
  // if `code` is still 0, call Post; else that is what the provider answered. On entry `code` is
  // what it answered to the write's injection, 0 if there was none.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Begin(fid_ep* endpoint, const RemoteWindow& window,
                                          const NotifiedWrite& write, const ImmediateLimits& limits,
                                          Operation* operation, ssize_t* code) const {
    operation->owner = write.owner;
    operation->tag = write.tag;
    operation->peer = window.peer;
    operation->source = write.source;
    operation->length = write.length;
    // A write that could be injected whole is a single piece all the same.
    const bool split = write.length - 1 < window.pieces_up_to;
    if (*code == 0 && is_write_imm_ && ABSL_PREDICT_TRUE(!split)) {
      *code = PostWriteImm(endpoint, write.source, write.length, write.descriptor, write.token,
                           window.peer, window.AddressOf(write.offset), window.key,
                           &operation->contexts[0]);
      if (ABSL_PREDICT_TRUE(*code == 0)) {
        operation->step = Operation::Step::kDone;
        operation->completions_due = 1;
        return true;
      }
    }
    // A later post, or another attempt, needs the rest.
    operation->notifier = this;
    operation->descriptor = write.descriptor;
    operation->remote_address = window.AddressOf(write.offset);
    operation->remote_key = window.key;
    operation->remote_offset = write.offset;
    operation->eager_bytes = window.eager_bytes;
    operation->piece_bytes = split ? limits.piece_bytes : 0;
    operation->token = write.token;
    return false;
  }

  // Whether long messages may go in pieces, on a fabric of this profile.
  bool may_send_pieces(const Profile& profile) const {
    return is_write_imm_ && profile.may_send_pieces;
  }

  // Whether bytes that went inside a send to `window` may overwrite a later transfer's there: the
  // peer's reactor places them only when it comes to the send.
  bool may_place_late(const RemoteWindow& window) const {
    return !is_write_imm_ && window.eager_bytes > 0;
  }

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

// Sends the `length` bytes of a message (ring_message.h) that lie in the operation's staging. Lives
// for ever.
const Notifier* GetStagedSender();

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_OPERATIONS_NOTIFIER_H_
