#include "src/invoke/executor/executor_endpoint.h"

#include <cassert>
#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

// How often sessions are asked for memory that they do not need any more.
constexpr int64_t kMemoryLooksNs = 250'000'000;

}  // namespace

ExecutorEndpoint::ExecutorEndpoint(uint16_t fabric, transport::FabricChoice choice,
                                   ExecutorShared* shared, uint16_t first_number,
                                   const transport::ReactorOptions& options)
    : fabric_(fabric),
      choice_(std::move(choice)),
      shared_(shared),
      options_(options),
      scheduler_(shared, &sessions_),
      sessions_(first_number) {}

ExecutorEndpoint::~ExecutorEndpoint() { transport::Reactor::Close(std::move(reactor_), quiet_); }

absl::Status ExecutorEndpoint::Open() {
  if (open()) return absl::OkStatus();
  absl::MutexLock lock(&open_mutex_);
  if (open()) return absl::OkStatus();
  absl::StatusOr<transport::FabricChoice> choice = transport::CopyOf(choice_);
  if (!choice.ok()) return choice.status();
  absl::StatusOr<std::unique_ptr<transport::Reactor>> reactor =
      transport::Reactor::Open(*std::move(choice), options_, shared_->quarantine_total);
  if (!reactor.ok()) return reactor.status();
  sessions_.Allocate();
  (*reactor)->set_handler(this);
  reactor_ = *std::move(reactor);
  scheduler_.set_reactor(reactor_.get());
  open_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status ExecutorEndpoint::TakesSessions() {
  const absl::Status& health = reactor_->health();
  const transport::Quarantine& quarantine = reactor_->quarantine();
  if (!health.ok() || quarantine.full()) healthy_.store(false, std::memory_order_relaxed);
  return health.ok() ? quarantine.HasRoom() : health;
}

void ExecutorEndpoint::GiveUp(const absl::Status& reason) {
  reactor_->GiveUp(reason);
  healthy_.store(false, std::memory_order_relaxed);
}

bool ExecutorEndpoint::worth_replacing() const {
  const transport::Quarantine& quarantine = reactor_->quarantine();
  // A further endpoint has no room either before this one has been closed.
  if (quarantine.total_full()) return !profile().close_needs_quiet && quarantine.bytes() > 0;
  return !reactor_->health().ok() || quarantine.bytes() > 0;
}

void ExecutorEndpoint::EndPolling() {
  CountStrayMessages();
  quiet_ = false;
}

bool ExecutorEndpoint::settled() const {
  if (live()) return false;
  return reactor_->endpoint_quarantined() ||
         (reactor_->operations().outstanding() == 0 && !reactor_->has_retired() &&
          reactor_->peers().quarantined() == 0 && !reactor_->awaits_check());
}

// The first of the executor's two upcalls. The reactor calls it from inside Poll, once for each
// doorbell that it has read from the completion queue, because only the reactor knows how to tell a
// doorbell from other completions. Functions run inside this call, so that the doorbell is not
// stored and read again. Responses are not posted here: those of one turn leave together when Poll
// has returned (SessionScheduler::Turn).
void ExecutorEndpoint::OnToken(uint64_t token) {
  const Immediate immediate = Immediate::Split(static_cast<uint32_t>(token));
  // A token with an upper half is of neither kind.
  const uint64_t kind = token >> 30;
  ExecutorSession* session = nullptr;
  if (kind == static_cast<uint64_t>(MessageKind::kRequest) ||
      kind == static_cast<uint64_t>(MessageKind::kProbe)) {
    session = sessions_.Find(immediate.session);
  }
  if (ABSL_PREDICT_FALSE(session == nullptr)) return TakeRareToken(token);
  scheduler_.Ring(session, static_cast<MessageKind>(kind), immediate.cell);
}

// A doorbell of a session that is not open, or of a message without its header.
void ExecutorEndpoint::TakeRareToken(uint64_t token) {
  const auto low = static_cast<uint32_t>(token);
  const auto upper = static_cast<uint32_t>(token >> 32);
  const Immediate immediate = Immediate::Split(low);
  ExecutorSession* session = nullptr;
  if (upper != 0 &&
      (immediate.kind == MessageKind::kRequest || immediate.kind == MessageKind::kProbe)) {
    session = sessions_.Find(immediate.session);
  }
  if (session == nullptr) {
    CountShared(&DropCounters::unknown_session, 1, &shared_->watch->dropped());
    return;
  }
  const bool means_nothing = profile().immediate_bytes < sizeof(token);
  if (means_nothing || session->RestoreSequence(immediate.cell, upper)) OnToken(low);
}

void ExecutorEndpoint::CountStrayMessages() {
  const uint64_t stray = reactor_->counters().stray_messages;
  if (stray == stray_messages_) return;
  CountShared(&DropCounters::stray_message, stray - stray_messages_, &shared_->watch->dropped());
  stray_messages_ = stray;
}

// The second upcall. The reactor calls it from inside Poll, at least once per millisecond of
// polling, because it reads the clock anyway. Sessions that have failed end here and not where they
// fail: their own code may be running there.
void ExecutorEndpoint::OnTick(int64_t now_ns) {
  CountStrayMessages();
  scheduler_.OnTick();
  const absl::Status& health = reactor_->health();
  if (!health.ok()) {
    healthy_.store(false, std::memory_order_relaxed);
    while (live()) FailSession(sessions_.live().back(), health);
  } else if (reactor_->quarantine().full()) {
    healthy_.store(false, std::memory_order_relaxed);
  }
  if (shared_->deferred != nullptr && shared_->deferred->any()) {
    for (const uint16_t number : sessions_.live()) sessions_.Find(number)->LookForCancelled();
  }
  const BulkBudget* const budget = shared_->bulk_budget.get();
  if (budget != nullptr && budget->keepers.load(std::memory_order_relaxed) > 0 &&
      now_ns >= next_memory_look_ns_) {
    next_memory_look_ns_ = now_ns + kMemoryLooksNs;
    for (const uint16_t number : sessions_.live()) {
      sessions_.Find(number)->GiveBackIdleMemory(now_ns);
    }
  }
  std::vector<uint16_t> failed;
  failed.swap(failed_);
  for (const uint16_t number : failed) {
    // The session may have ended, and another may have its number.
    const ExecutorSession* session = sessions_.Find(number);
    if (session == nullptr || session->failure().ok()) continue;
    const absl::Status reason = session->failure();
    FailSession(number, reason);
  }
}

void ExecutorEndpoint::FailSession(uint16_t number, const absl::Status& status) {
  const SessionKey key = {number, sessions_.Find(number)->epoch(), fabric_};
  EndSession(number);
  shared_->on_session_failed(key, status);
}

void ExecutorEndpoint::EndSession(uint16_t number) {
  ExecutorSession* const session = sessions_.Find(number);
  assert(session != nullptr);
  scheduler_.Remove(session);
  if (!session->heard() && shared_->on_unheard) shared_->on_unheard();
  ended_.executed += session->counters().executed;
  ended_.refused += session->counters().refused;
  sessions_.Remove(number);
  if (!live()) shared_->rearrange = true;
  shared_->live_sessions.fetch_sub(1, std::memory_order_relaxed);
  live_sessions_.fetch_sub(1, std::memory_order_relaxed);
}

absl::StatusOr<bootstrap::OpenSessionReply> ExecutorEndpoint::OpenSession(
    const bootstrap::OpenSessionRequest& request, Notification notification,
    transport::HostBuffer request_window, transport::HostBuffer response_staging,
    const DataKeys& data_keys, std::shared_ptr<UsageMeter> meter) {
  assert(shared_->thread.IsSame());
  if (absl::Status status = TakesSessions(); !status.ok()) return status;
  const std::optional<uint16_t> number = sessions_.FindFree();
  if (!number.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat("the executor has ", SessionNumbers::kMost,
                                                     " sessions open on provider ",
                                                     profile().provider, ", which is all it can"));
  }
  ExecutorSession::Parts parts;
  parts.reactor = reactor_.get();
  parts.functions = shared_->functions;
  parts.filter = request.filter;
  parts.tenant = request.tenant;
  parts.watch = shared_->watch;
  parts.draining = &shared_->draining;
  parts.times = &shared_->times;
  parts.dropped = &shared_->watch->dropped();
  parts.meter = std::move(meter);
  if (shared_->function_meters != nullptr) {
    parts.function_meters = shared_->function_meters->OfFabric(fabric_);
  }
  shared_->scale.Refine(ReadTicks());
  parts.scale = &shared_->scale;
  parts.bulk_budget = shared_->bulk_budget;
  parts.deferred = shared_->deferred.get();
  parts.store = shared_->store;
  parts.unfinished = scheduler_.unfinished();
  parts.ring = scheduler_.ring();
  parts.failed = &failed_;
  parts.number = *number;
  parts.epoch = shared_->next_epoch++;
  parts.first_sequence = request.first_sequence;
  parts.notification = notification;
  parts.data_auth = request.data_auth;
  parts.data_keys = data_keys;
  parts.request_window = std::move(request_window);
  parts.response_staging = std::move(response_staging);
  absl::StatusOr<std::unique_ptr<ExecutorSession>> session =
      ExecutorSession::Open(std::move(parts), request);
  if (!session.ok()) return session.status();
  bootstrap::OpenSessionReply reply;
  reply.executor = shared_->index;
  reply.endpoint_address = reactor_->address();
  reply.request_window = (*session)->request_window();
  reply.request_session = *number;
  reply.epoch = (*session)->epoch();
  reply.notification = notification;
  reply.eager_bytes = reactor_->eager_bytes();
  reply.data_auth = request.data_auth;
  reply.data_keys = data_keys;
  if (!live()) shared_->rearrange = true;
  sessions_.Add(*std::move(session));
  shared_->live_sessions.fetch_add(1, std::memory_order_relaxed);
  live_sessions_.fetch_add(1, std::memory_order_relaxed);
  return reply;
}

bool ExecutorEndpoint::finishing() const {
  return reactor_->health().ok() && (reactor_->operations().outstanding() > 0 || scheduler_.busy());
}

void ExecutorEndpoint::EndAll() {
  quiet_ = !live() && !reactor_->has_retired();
  while (live()) EndSession(sessions_.live().back());
}

ExecutorCounters ExecutorEndpoint::Counters() const {
  ExecutorCounters sum = ended_;
  for (const uint16_t number : sessions_.live()) {
    const ExecutorSessionCounters& counters = sessions_.Find(number)->counters();
    sum.executed += counters.executed;
    sum.refused += counters.refused;
  }
  sum.live_sessions = sessions_.live().size();
  if (open()) {
    const transport::PeerTable& peers = reactor_->peers();
    sum.peers = peers.live() + peers.quarantined() + peers.kept();
    sum.peers_kept = peers.kept();
    sum.regions = reactor_->regions().size();
    sum.quarantined_bytes = reactor_->quarantine().bytes();
    sum.quarantined_ranges = reactor_->quarantine().ranges();
  }
  return sum;
}

}  // namespace invoker
