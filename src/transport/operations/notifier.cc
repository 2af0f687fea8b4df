#include "src/transport/operations/notifier.h"

#include <algorithm>
#include <cstring>

#include "src/transport/base/ring_message.h"
#include "src/transport/operations/transfer.h"

namespace invoker::transport {

PostResult JudgePost(ssize_t code, int* error) {
  if (code == 0) return PostResult::kPosted;
  if (code == -FI_EAGAIN) return PostResult::kAgain;
  *error = static_cast<int>(code);
  return PostResult::kFailed;
}

namespace {

// Sends what stands in the slot's staging, which stays as it is until the send has completed.
PostResult PostStaging(fid_ep* endpoint, size_t bytes, Operation* operation, int* error) {
  const PostResult result =
      JudgePost(fi_send(endpoint, operation->staging, bytes, operation->staging_descriptor,
                        operation->peer, &operation->contexts[1]),
                error);
  if (result == PostResult::kPosted) {
    operation->step = Operation::Step::kDone;
    ++operation->completions_due;
  }
  return result;
}

PostResult PostToken(fid_ep* endpoint, Operation* operation, int* error) {
  // Tokens are little-endian on the wire, as all of the wire format is.
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a big-endian host must swap here");
  memcpy(operation->staging, &operation->token, kTokenBytes);
  return PostStaging(endpoint, kTokenBytes, operation, error);
}

// Whether the bytes may go inside the send. Nothing has been posted yet.
bool IsEager(const Operation& operation) {
  return operation.length > 0 && operation.length <= operation.eager_bytes &&
         operation.length + kRingHeaderBytes <= operation.staging_bytes;
}

PostResult PostEager(fid_ep* endpoint, Operation* operation, int* error) {
  EncodeRingHeader({RingMessageType::kEager, static_cast<uint32_t>(operation->token),
                    operation->remote_key, operation->remote_offset},
                   operation->staging);
  memcpy(operation->staging + kRingHeaderBytes, operation->source, operation->length);
  return PostStaging(endpoint, kRingHeaderBytes + operation->length, operation, error);
}

// The length of the next of the fewest pieces that `length` bytes need: all alike, so that neither
// side waits long for the other's copy, and ending where a cache line does.
uint64_t NextPiece(uint64_t length, uint64_t most) {
  constexpr uint64_t kLine = 64;
  const uint64_t pieces = (length + most - 1) / most;
  const uint64_t even = (length + pieces - 1) / pieces;
  return std::min(most, (even + kLine - 1) / kLine * kLine);
}

// Injects all of a message but its last piece. The provider has copied what it takes, so that these
// have no completions; the fabric keeps writes in order, so that the last piece, which has the
// token, is the last to arrive. A piece that is refused is where this goes on the next time.
PostResult PostPieces(fid_ep* endpoint, Operation* operation, int* error) {
  while (operation->length > operation->piece_bytes) {
    const uint64_t bytes = NextPiece(operation->length, operation->piece_bytes);
    const PostResult result = JudgePost(
        PostWriteImm(endpoint, operation->source, bytes, operation->descriptor, kPieceData,
                     operation->peer, operation->remote_address, operation->remote_key,
                     /*context=*/nullptr),
        error);
    if (result != PostResult::kPosted) return result;
    operation->source = static_cast<const std::byte*>(operation->source) + bytes;
    operation->remote_address += bytes;
    operation->remote_offset += bytes;
    operation->length -= bytes;
  }
  return PostResult::kPosted;
}

class WriteImm final : public Notifier {
 public:
  WriteImm() : Notifier(/*is_write_imm=*/true) {}

  PostResult Post(fid_ep* endpoint, Operation* operation, int* error) const override {
    if (operation->piece_bytes != 0) {
      const PostResult result = PostPieces(endpoint, operation, error);
      if (result != PostResult::kPosted) return result;
    }
    const PostResult result = JudgePost(
        PostWriteImm(endpoint, operation->source, operation->length, operation->descriptor,
                     operation->token, operation->peer, operation->remote_address,
                     operation->remote_key, &operation->contexts[0]),
        error);
    if (result == PostResult::kPosted) {
      operation->step = Operation::Step::kDone;
      operation->completions_due = 1;
    }
    return result;
  }
};

class PipelinedSendAfterWrite final : public Notifier {
 public:
  PostResult Post(fid_ep* endpoint, Operation* operation, int* error) const override {
    if (operation->step == Operation::Step::kWrite) {
      if (IsEager(*operation)) return PostEager(endpoint, operation, error);
      const PostResult result =
          JudgePost(fi_write(endpoint, operation->source, operation->length, operation->descriptor,
                             operation->peer, operation->remote_address, operation->remote_key,
                             &operation->contexts[0]),
                    error);
      if (result != PostResult::kPosted) return result;
      operation->step = Operation::Step::kSend;
      operation->completions_due = 1;
    }
    return PostToken(endpoint, operation, error);
  }
};

class SendAfterDelivery final : public Notifier {
 public:
  PostResult Post(fid_ep* endpoint, Operation* operation, int* error) const override {
    // No bytes, nothing to deliver first; and some providers never complete such a write.
    if (operation->length == 0) operation->step = Operation::Step::kSend;
    if (operation->step == Operation::Step::kSend) return PostToken(endpoint, operation, error);
    if (IsEager(*operation)) return PostEager(endpoint, operation, error);
    const PostResult result = JudgePost(PostDeliveredWrite(endpoint, operation), error);
    if (result == PostResult::kPosted) {
      // The send waits for this write's completion.
      operation->step = Operation::Step::kSend;
      operation->completions_due = 1;
    }
    return result;
  }
};

class StagedSend final : public Notifier {
 public:
  PostResult Post(fid_ep* endpoint, Operation* operation, int* error) const override {
    return PostStaging(endpoint, operation->length, operation, error);
  }
  const char* what() const override { return "a message"; }
};

}  // namespace

const Notifier* GetNotifier(Notification notification, SendOrder order) {
  static const WriteImm* const write_imm = new WriteImm;
  static const PipelinedSendAfterWrite* const pipelined = new PipelinedSendAfterWrite;
  static const SendAfterDelivery* const after_delivery = new SendAfterDelivery;
  if (notification == Notification::kWriteImm) return write_imm;
  if (order == SendOrder::kPipelined) return pipelined;
  return after_delivery;
}

const Notifier* GetStagedSender() {
  static const StagedSend* const sender = new StagedSend;
  return sender;
}

}  // namespace invoker::transport
