#include "src/invoke/connect/fabric_session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/bootstrap/messages/compatibility.h"
#include "src/invoke/connect/connect_times.h"
#include "src/invoke/fabrics/fabric_identity.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/transport/self_test/method_trial.h"

namespace invoker {
namespace {

// Long enough for a busy worker, short enough for a user who presses Ctrl-C.
constexpr absl::Duration kCloseTimeout = absl::Seconds(2);

// Memory is registered in a round trip, which waits for no function.
constexpr absl::Duration kLeastRegistering = absl::Seconds(1);

// A client that busy-polls for so long before it sleeps rarely sleeps, unless functions are slow,
// to which it does not matter that nothing ends a sleep at once.
constexpr absl::Duration kHotFrom = absl::Microseconds(200);

// A peer waits that long for a processor at times, with a lock.
constexpr absl::Duration kLeastSpinLimit = absl::Milliseconds(100);
// However long the peer may be silent.
constexpr absl::Duration kMostSpinLimit = absl::Seconds(5);

absl::Status CheckPieces(const ClientOptions& options, const transport::Profile& profile) {
  const uint64_t most = transport::MethodTrial::kLongest * profile.inject_bytes;
  if (!profile.may_send_pieces || options.pieces_up_to.value_or(0) <= most) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("pieces_up_to=", *options.pieces_up_to, " is too much: provider ",
                   profile.provider, " sends payloads of up to ", most, " bytes in pieces"));
}

}  // namespace

FabricSession::Opened FabricSession::Open(const Setting& setting,
                                          const bootstrap::FabricOffer& offer,
                                          const transport::FabricChoice& choice) {
  Notification wanted = setting.options->notification;
  // The first attempt's reason, if there is a second.
  std::string downgrade_reason;
  bool worker_knows = false;  // knows the downgrade
  absl::Status first_proof;
  while (true) {
    std::unique_ptr<FabricSession> session(new FabricSession(setting, offer));
    session->downgrade_reason_ = downgrade_reason;
    absl::Status status = session->OpenEndpoint(choice);
    if (status.ok()) status = session->OpenSession(wanted, worker_knows ? "" : downgrade_reason);
    if (!status.ok()) {
      if (!first_proof.ok()) status = first_proof;
      return {nullptr, status, !absl::IsInvalidArgument(status) && setting.watch->lost().ok()};
    }
    const absl::Status proof = session->Prove();
    if (proof.ok() && !session->switched_) return {std::move(session), proof, true};
    if (proof.ok()) {
      // The probe that was lost may still land, so its cells stay taken. A new session has whole
      // windows.
      wanted = Notification::kSendAfterWrite;
      downgrade_reason = session->downgrade_reason_;
      worker_knows = true;
      first_proof = absl::UnavailableError(downgrade_reason);
      continue;
    }
    const bool may_be_the_fabric = !session->busy_ && setting.watch->lost().ok();
    if (!session->BothAuto() || !downgrade_reason.empty() || !may_be_the_fabric ||
        session->reply_.notification != Notification::kWriteImm ||
        session->driver()->status().ok()) {
      return {nullptr, first_proof.ok() ? proof : first_proof, may_be_the_fabric};
    }
    // The fabric does not merely lose immediates, it fails them, and the session with them: a new
    // one does without.
    wanted = Notification::kSendAfterWrite;
    first_proof = proof;
    downgrade_reason =
        absl::StrCat("a write with immediate failed (", session->probe_failure_.message(),
                     "); using send_after_write instead");
  }
}

FabricSession::~FabricSession() { Close(); }

absl::StatusOr<uint16_t> FabricSession::RegisterWindow(const bootstrap::WindowDescriptor& window,
                                                       bool readable, bool writable,
                                                       absl::Duration timeout) {
  // Given up earlier, it would leave windows at the worker whose numbers nobody here has learnt.
  const absl::Duration patience = std::max(timeout, kLeastRegistering);
  return setting_.bootstrap->RegisterWindow(setting_.lease, reply_.handle, window, readable,
                                            writable,
                                            std::min(patience, options().connect_timeout));
}

absl::Status FabricSession::ForgetWindow(uint16_t number, absl::Duration timeout) {
  return setting_.bootstrap->ForgetWindow(setting_.lease, reply_.handle, number, timeout);
}

void FabricSession::EndCalls() {
  if (driver_ == nullptr) return;
  driver_->Close();
  setting_.watch->End();
}

bool FabricSession::Close() {
  if (driver_ == nullptr) return true;
  driver_->Close();
  // With the lease the session is lost as well, and the worker may be silent.
  const bool lost = !setting_.watch->lost().ok();
  if (const uint64_t handle = setting_.watch->End(); handle != 0 && !lost) {
    // The lease's end closes the session as well, if this does not get through.
    const absl::Duration timeout = std::min(kCloseTimeout, options().peer_timeout);
    const absl::Status closed = setting_.bootstrap->CloseSession(setting_.lease, handle, timeout);
    driver_->LetTransfersEnd();
    return closed.ok() || absl::IsNotFound(closed);
  }
  return true;
}

absl::Status FabricSession::OpenEndpoint(const transport::FabricChoice& choice) {
  ConnectStep step(options().times, &ConnectTimes::endpoint);
  absl::StatusOr<transport::FabricChoice> copy = transport::CopyOf(choice);
  if (!copy.ok()) return copy.status();
  transport::ReactorOptions reactor_options;
  if (options().hot_timeout >= kHotFrom) reactor_options.use = transport::ReactorUse::kHot;
  reactor_options.shows_sleep = true;
  reactor_options.spin_limit =
      std::clamp(options().peer_timeout / 2, kLeastSpinLimit, kMostSpinLimit);
  absl::StatusOr<std::unique_ptr<transport::Reactor>> reactor =
      transport::Reactor::Open(*std::move(copy), reactor_options);
  if (!reactor.ok()) return reactor.status();
  if (absl::Status status = CheckPieces(options(), (*reactor)->profile()); !status.ok()) {
    return status;
  }
  ClientSession::Options session;
  session.window_bytes =
      options().window_bytes == 0 ? setting_.info->window_bytes : options().window_bytes;
  // A peer that reaches the endpoint can ring its doorbells, but has to guess this.
  const absl::StatusOr<uint64_t> number = transport::DrawRandom();
  if (!number.ok()) return number.status();
  session.number = static_cast<uint16_t>(*number);
  session.first_sequence = options().first_sequence;
  session.data_auth = options().data_auth;
  auto driver = std::make_shared<CallDriver>(*std::move(reactor), options().hot_timeout);
  if (absl::Status status = driver->Prepare(session); !status.ok()) return status;
  driver_ = std::move(driver);
  return absl::OkStatus();
}

absl::Status FabricSession::OpenSession(Notification wanted, absl::string_view downgrade_reason) {
  ConnectStep step(options().times, &ConnectTimes::session);
  const transport::Reactor& reactor = driver_->reactor();
  if (wanted == Notification::kAuto &&
      reactor.profile().notification == Notification::kSendAfterWrite) {
    wanted = Notification::kSendAfterWrite;
  }
  const absl::StatusOr<uint32_t> version =
      bootstrap::AgreeOnVersion(setting_.info->protocol_versions, {});
  if (!version.ok()) return version.status();
  bootstrap::OpenSessionRequest request = driver_->MakeRequest(wanted);
  request.protocol_version = *version;
  request.fabric = IdentityOf(reactor.profile(), reactor.info());
  request.executor = setting_.executor;
  request.downgrade_reason = std::string(downgrade_reason);
  setting_.watch->Begin(driver_);
  absl::StatusOr<bootstrap::OpenSessionReply> reply =
      setting_.bootstrap->OpenSession(setting_.lease, request, options().connect_timeout);
  if (!reply.ok()) return reply.status();
  reply_ = *std::move(reply);
  absl::Status attached = driver_->Attach(reply_);
  Wipe(&reply_.data_keys);
  setting_.watch->Opened(reply_.handle);
  return attached;
}

bool FabricSession::BothAuto() const {
  return options().notification == Notification::kAuto &&
         setting_.info->notification == Notification::kAuto;
}

// Never trusts an advertised capability: bytes must have crossed, both ways, before a session is
// live.
absl::Status FabricSession::Prove() {
  ConnectStep step(options().times, &ConnectTimes::probe);
  absl::Status first = Probe();
  probe_failure_ = first;
  if (first.ok()) driver_->ChooseMethod(options().pieces_up_to);
  // A session that still stands has not been refuted.
  if (first.ok() || busy_) return first;
  std::string tried(NotificationName(reply_.notification));
  absl::Status last = first;
  const bool lost = absl::IsDeadlineExceeded(first);
  if (lost && reply_.notification == Notification::kWriteImm && BothAuto()) {
    const std::string reason = absl::StrCat("a write with immediate did not come back within ",
                                            absl::FormatDuration(options().probe_timeout),
                                            "; using send_after_write instead");
    absl::Status switched = setting_.bootstrap->SwitchNotification(
        setting_.lease, reply_.handle, Notification::kSendAfterWrite, reason,
        options().connect_timeout);
    if (!switched.ok()) {
      return absl::Status(switched.code(),
                          absl::StrCat("switching to send_after_write: ", switched.message()));
    }
    reply_.notification = Notification::kSendAfterWrite;
    driver_->SetNotification(Notification::kSendAfterWrite);
    last = Probe();
    if (last.ok()) {
      downgrade_reason_ = reason;
      switched_ = true;
    }
    if (last.ok() || busy_) return last;
    absl::StrAppend(&tried, ", then send_after_write");
  } else if (lost) {
    // A worker lets new peers in one by one, behind strangers by the hundred if need be.
    last = Probe();
    if (last.ok() || busy_) return last;
    absl::StrAppend(&tried, ", then the same again");
  }
  const transport::Reactor& reactor = driver_->reactor();
  return absl::UnavailableError(absl::StrCat(
      "the worker at ", setting_.bootstrap->target(),
      " answers the bootstrap, but its data path over \"", offer_.identity.provider,
      "\" does not: tried ", tried, ", each for ", absl::FormatDuration(options().probe_timeout),
      " (", last.message(), "). Address format here ", reactor.info().addr_format, ", there ",
      offer_.identity.address_format, "; this side's fabric address is ",
      transport::DescribeSource(reactor.info()),
      ". Check that the fabric's own traffic can pass between the hosts (firewall, interface: "
      "--fabric-address)"));
}

absl::Status FabricSession::Probe() {
  std::array<std::byte, 16> nonce;
  if (absl::Status status = transport::FillRandom(absl::MakeSpan(nonce)); !status.ok()) {
    return status;
  }
  ClientSession::Request request;
  request.kind = MessageKind::kProbe;
  request.highest_cells = true;
  request.input = nonce;
  request.response_capacity = nonce.size();
  absl::StatusOr<Call*> call = driver_->Start(request);
  if (!call.ok()) return call.status();
  const int64_t half_ns = absl::ToInt64Nanoseconds(options().probe_timeout / 2);
  if (!driver_->AwaitEnd(*call, transport::MonotonicNs() + half_ns)) {
    // Lost, or waiting behind a function that runs? The bootstrap answers this only after the
    // executor's next turn; the probe has the other half of its time from there.
    const absl::Status turned =
        setting_.bootstrap->SwitchNotification(setting_.lease, reply_.handle, reply_.notification,
                                               /*reason=*/"", options().connect_timeout);
    if (!turned.ok() || !driver_->AwaitEnd(*call, transport::MonotonicNs() + half_ns)) {
      driver_->Drop(*call);
      if (turned.ok()) return absl::DeadlineExceededError("no answer to the probe");
      if (absl::IsNotFound(turned)) {
        // The lease has not brought it yet.
        driver_->Fail(absl::UnavailableError("the worker has ended the session"));
        return driver_->status();
      }
      busy_ = driver_->status().ok();
      return absl::UnavailableError(absl::StrCat(
          "the worker's executor takes no turn, perhaps because it runs a long function: ",
          turned.message()));
    }
  }
  absl::StatusOr<Response> response = driver_->Await(*call);
  if (!response.ok()) return response.status();
  const bool same = response->size() == nonce.size() &&
                    std::equal(nonce.begin(), nonce.end(), response->data().begin());
  if (!same) return absl::DataLossError("the probe came back with other bytes than it left with");
  return absl::OkStatus();
}

}  // namespace invoker
