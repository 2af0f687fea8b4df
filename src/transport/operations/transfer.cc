#include "src/transport/operations/transfer.h"

namespace invoker::transport {

ssize_t PostDeliveredWrite(fid_ep* endpoint, Operation* operation) {
  iovec local = {const_cast<void*>(operation->source), operation->length};
  fi_rma_iov remote = {operation->remote_address, operation->length, operation->remote_key};
  fi_msg_rma message = {};
  message.msg_iov = &local;
  message.desc = &operation->descriptor;
  message.iov_count = 1;
  message.addr = operation->peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &operation->contexts[0];
  return fi_writemsg(endpoint, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION);
}

namespace {

class Transferrer : public Notifier {
 public:
  PostResult Post(fid_ep* endpoint, Operation* operation, int* error) const override {
    if (operation->step == Operation::Step::kSend) {
      operation->step = Operation::Step::kDone;
      return PostResult::kOver;
    }
    const PostResult result = JudgePost(PostTo(endpoint, operation), error);
    if (result == PostResult::kPosted) {
      operation->step = Operation::Step::kSend;
      operation->completions_due = 1;
    }
    return result;
  }

 private:
  virtual ssize_t PostTo(fid_ep* endpoint, Operation* operation) const = 0;
};

class RemoteRead final : public Transferrer {
 public:
  const char* what() const override { return "a read"; }

 private:
  ssize_t PostTo(fid_ep* endpoint, Operation* operation) const override {
    return fi_read(endpoint, const_cast<void*>(operation->source), operation->length,
                   operation->descriptor, operation->peer, operation->remote_address,
                   operation->remote_key, &operation->contexts[0]);
  }
};

class DeliveredWrite final : public Transferrer {
  ssize_t PostTo(fid_ep* endpoint, Operation* operation) const override {
    return PostDeliveredWrite(endpoint, operation);
  }
};

}  // namespace

const Notifier* GetTransferrer(TransferDirection direction) {
  static const RemoteRead* const read = new RemoteRead;
  static const DeliveredWrite* const write = new DeliveredWrite;
  if (direction == TransferDirection::kRead) return read;
  return write;
}

}  // namespace invoker::transport
