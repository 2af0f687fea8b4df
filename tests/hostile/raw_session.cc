#include "tests/hostile/raw_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invoker/notification.h"
#include "src/invoke/fabrics/fabric_identity.h"

namespace invoker::hostile {
namespace {

// For a loaded machine; what takes longer hangs.
constexpr absl::Duration kStepTimeout = absl::Seconds(60);

}  // namespace

std::atomic<bool> RawSession::interrupted{false};

absl::StatusOr<std::unique_ptr<transport::Reactor>> OpenReactor(const std::string& provider) {
  transport::FabricRequest request;
  request.provider = provider;
  if (transport::FindRow(provider).address_is_ip) request.address = "127.0.0.1";
  absl::StatusOr<transport::FabricChoice> choice = transport::Discover(request);
  if (!choice.ok()) return choice.status();
  return transport::Reactor::Open(*std::move(choice), {});
}

absl::StatusOr<std::unique_ptr<RawSession>> RawSession::Open(const std::string& server,
                                                             const std::string& provider,
                                                             const LeaseTerms& terms) {
  std::unique_ptr<RawSession> raw(new RawSession);
  auto client = bootstrap::BootstrapClient::Connect(server, kStepTimeout);
  if (!client.ok()) return client.status();
  raw->bootstrap_ = *std::move(client);
  auto lease = bootstrap::Lease::Acquire(raw->bootstrap_.get(), terms, {}, kStepTimeout);
  if (!lease.ok()) return lease.status();
  raw->lease_ = *std::move(lease);
  auto reactor = OpenReactor(provider);
  if (!reactor.ok()) return reactor.status();
  raw->reactor_ = *std::move(reactor);
  ClientSession::Options options;
  options.window_bytes = raw->bootstrap_->worker_info().window_bytes;
  auto session = ClientSession::Create(raw->reactor_.get(), options);
  if (!session.ok()) return session.status();
  raw->session_ = *std::move(session);
  raw->reactor_->set_handler(raw->session_.get());
  raw->request_ = raw->session_->MakeRequest(Notification::kAuto);
  raw->request_.fabric = IdentityOf(raw->reactor_->profile(), raw->reactor_->info());
  auto reply = raw->bootstrap_->OpenSession(raw->lease_->id(), raw->request_, kStepTimeout);
  if (!reply.ok()) return reply.status();
  raw->reply_ = *std::move(reply);
  if (absl::Status status = raw->session_->Attach(raw->reply_); !status.ok()) return status;
  return raw;
}

RawSession::~RawSession() {
  if (bootstrap_ != nullptr && lease_ != nullptr && reply_.handle != 0) {
    bootstrap_->CloseSession(lease_->id(), reply_.handle, kStepTimeout).IgnoreError();
  }
}

uint16_t RawSession::FunctionId(absl::string_view name) const {
  for (size_t id = 0; id < reply_.functions.size(); ++id) {
    if (reply_.functions[id].name == name) return static_cast<uint16_t>(id);
  }
  return 0xffff;
}

Call* RawSession::Start(uint16_t function, absl::string_view input, absl::Duration timeout,
                        uint8_t flags) {
  ClientSession::Request request;
  request.function_id = function;
  request.flags = flags;
  request.input = {reinterpret_cast<const std::byte*>(input.data()), input.size()};
  request.response_capacity = static_cast<uint32_t>(std::max<size_t>(input.size(), 64));
  request.deadline_ns = transport::MonotonicNs() + absl::ToInt64Nanoseconds(timeout);
  return session_->Start(request);
}

void RawSession::Poll() {
  reactor_->Poll();
  session_->Flush();
}

absl::StatusOr<std::string> RawSession::Await(Call* call) {
  while (!call->ended() && !interrupted) Poll();
  if (!call->ended()) {
    session_->Retire(call);
    return absl::CancelledError("interrupted");
  }
  const absl::Status status = call->status;
  std::string text;
  if (status.ok()) {
    const absl::Span<const std::byte> payload = session_->Payload(*call);
    text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  session_->Finish(call, false);
  if (!status.ok()) return status;
  return text;
}

absl::StatusOr<std::string> RawSession::Run(uint16_t function, absl::string_view input,
                                            absl::Duration timeout, uint8_t flags) {
  Call* call = Start(function, input, timeout, flags);
  if (call == nullptr) return absl::ResourceExhaustedError("no room for a call");
  return Await(call);
}

}  // namespace invoker::hostile
