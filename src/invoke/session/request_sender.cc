#include "src/invoke/session/request_sender.h"

#include <utility>

namespace invoker {

RequestSender::RequestSender(transport::Reactor* reactor, transport::MemoryRegion staging,
                             const WindowGeometry& geometry)
    : reactor_(reactor), staging_(std::move(staging)), geometry_(geometry) {}

RequestSender::~RequestSender() { reactor_->Retire(std::move(staging_)); }

void RequestSender::Attach(const bootstrap::OpenSessionReply& reply, fi_addr_t worker,
                           const WindowGeometry& geometry,
                           const MessageAuthenticator* authenticator,
                           transport::OperationOwner* owner) {
  geometry_ = geometry;
  authenticator_ = authenticator;
  owner_ = owner;
  epoch_ = reply.epoch;
  notification_ = reply.notification;
  const transport::RemoteWindow window = {worker, reply.request_window.base,
                                          reply.request_window.length, reply.request_window.key,
                                          reply.eager_bytes};
  batch_.emplace(reactor_, &staging_, window, geometry_, reply.request_session,
                 transport::GetNotifier(notification_, reactor_->profile().send_order), owner);
  if (!reactor_->profile().file_scheme.empty()) {
    batch_->set_peer_waker(transport::PeerWaker::Open(reply.endpoint_address));
  }
}

void RequestSender::SetNotification(Notification notification) {
  notification_ = notification;
  batch_->set_notifier(transport::GetNotifier(notification, reactor_->profile().send_order));
}

void RequestSender::set_pieces_up_to(uint64_t payload_bytes) {
  pieces_up_to_ = payload_bytes;
  batch_->set_pieces_up_to(
      payload_bytes == 0 ? 0 : geometry_.MessageBytes(static_cast<uint32_t>(payload_bytes)));
}

void RequestSender::AddSpecial(const CallRequest& request, const Call& call, uint32_t deadline_us,
                               bool alone) {
  const RequestHeader header = HeaderOf(request, call, deadline_us);
  const uint32_t cell = call.request.first;
  const uint32_t repeat = batch_->PutHeader(cell, Pack(header));
  std::byte* const message = MessageAt(cell);
  const bool written = request.writer != nullptr;
  if (written) CopyInput(request, call, message);
  const std::byte* const payload = written ? message + kHeaderBytes : request.input.data();
  // What has been injected is never read again.
  if (alone && repeat != 0 &&
      batch_->InjectRepeat(header.kind, cell, payload, header.payload_bytes, repeat)) {
    return;
  }
  if (!written) CopyInput(request, call, message);
  if (authenticator_ != nullptr) authenticator_->Close(message, header.payload_bytes);
  const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(header.payload_bytes));
  batch_->Add(header.kind, cell, message_bytes);
  batch_->SetRepeat(cell, repeat);
}

bool RequestSender::HasLeft(uint32_t cell) const {
  if (batch_->IsPending(cell)) return false;
  bool waits = false;
  reactor_->ForEachUntold(owner_, [&](const transport::Operation& operation) {
    const CellRun run = CellRun::FromTag(operation.tag);
    if (IsMark(operation.tag) || !run.Contains(cell)) return;
    // Some pieces of a message may have left, and a write may have left whose token follows it. A
    // message that leaves its header out does not take the flag along.
    const bool whole = operation.step == transport::Operation::Step::kWrite &&
                       operation.source == MessageAt(run.first);
    waits = waits || whole;
  });
  return !waits;
}

bool RequestSender::MarkCancelled(uint32_t cell) {
  const bool has_left = HasLeft(cell);
  MessageAt(cell)[kFlagsOffset] |= static_cast<std::byte>(kCancelled);
  if (!has_left) batch_->TakeHeaderAlong(cell);
  return has_left;
}

bool RequestSender::PostMark(const Call& call) {
  const uint64_t offset = geometry_.OffsetOf(call.request.first) + kFlagsOffset;
  const bool posted = reactor_->PostTransfer(
      transport::TransferDirection::kWrite, batch_->window(), offset, staging_.data() + offset,
      staging_.descriptor(), /*length=*/1, owner_, kMarkTag | call.index);
  if (posted) batch_->WakeReceiver();
  return posted;
}

}  // namespace invoker
